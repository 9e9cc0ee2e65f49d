//go:build linux && (amd64 || arm64)

package netdev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nicless/nicless"
)

var be = binary.BigEndian

// Limits of what an interface announces.
const (
	MaxAddresses = 4

	maxName      = 16 // bytes
	headSize     = 40
	addressSize  = 16
	announceSize = headSize + MaxAddresses*addressSize + MaxHost
)

// dialled is the name under which every interface listens. The dot keeps it out of lists of names.
const dialled = ".nicless-net"

const (
	announceMagic   = 0x6e6e6574 // "nnet"
	announceVersion = 3

	noArea = 0xff

	flagPicked = 1 // the addresses are picked by the interface, not given by a user
	flagBid    = 2 // with flagPicked: the interface does not have them yet
	flagToAll  = 4 // users other than the interface's read the announcement
)

// An announcement describes an interface. It changes when addresses do, not with sessions: so the news of a
// network are as many as interfaces come, go and get other addresses.
type announcement struct {
	life      uint64 // random, of this interface from its start to its end; not 0
	mtu       int
	area      int // number of its area in the shared slots; -1: it has none
	slots     int // number of slots in that area
	name      string
	addresses []netip.Addr
	claim     claim  // how firmly it has the addresses
	toAll     bool   // announced to all users
	host      string // under which it is found, a label (CheckHost); "": under none
}

// errNotOurs says that an announcement is not of an interface.
var errNotOurs = errors.New("not of a network interface")

// put writes the announcement:
//
//	0   magic
//	4   version, 2
//	5   number of the area in the shared slots, 1; 255: none
//	6   MTU, 2
//	8   life, 8
//	16  number of slots, 4
//	20  number of addresses, 2
//	22  flags, 1: flagPicked, flagBid, flagToAll
//	23  length of the host's name, 1
//	24  name, 16, 0 behind it
//	40  addresses, 16 each; IPv4 mapped
//	..  the host's name
//
// Version 1 had sessions behind the addresses, for 15 peers at most. Version 2 had 0 at 22 and 23.
func (a *announcement) put(b []byte) []byte {
	b = be.AppendUint32(b, announceMagic)
	b = append(b, announceVersion, byte(a.area)) // -1 is noArea
	b = be.AppendUint16(b, uint16(a.mtu))
	b = be.AppendUint64(b, a.life)
	b = be.AppendUint32(b, uint32(a.slots))
	b = be.AppendUint16(b, uint16(len(a.addresses)))
	flags := a.claim.flags()
	if a.toAll {
		flags |= flagToAll
	}
	b = append(b, flags, byte(len(a.host)))
	var name [maxName]byte
	copy(name[:], a.name)
	b = append(b, name[:]...)
	for _, ip := range a.addresses {
		ip := ip.As16()
		b = append(b, ip[:]...)
	}
	return append(b, a.host...)
}

// parseAnnouncement reads what some client has announced. It checks everything, and returns
// errNotOurs if the announcement is of another kind.
func parseAnnouncement(b []byte) (a announcement, err error) {
	if len(b) < headSize || be.Uint32(b) != announceMagic {
		return a, errNotOurs
	}
	a = announcement{life: be.Uint64(b[8:]), mtu: int(be.Uint16(b[6:])), area: int(b[5]),
		slots: int(be.Uint32(b[16:])), name: printable(b[24:headSize])}
	if a.area == noArea {
		a.area = -1
	}
	addresses, host := int(be.Uint16(b[20:])), int(b[23])
	var known bool
	a.claim, known = claimOf(b[22] &^ flagToAll)
	a.toAll = b[22]&flagToAll != 0
	switch {
	case b[4] != announceVersion:
		return a, fmt.Errorf("it has version %d; this interface has version %d", b[4], announceVersion)
	case a.life == 0:
		return a, errors.New("its life is 0")
	case addresses > MaxAddresses || host > MaxHost:
		return a, fmt.Errorf("it announces %d addresses and a host's name of %d bytes; %d and %d are possible", addresses, host, MaxAddresses, MaxHost)
	case !known:
		return a, fmt.Errorf("it has flags 0x%x; 0, 1 and 3 are possible, and 4 more", b[22])
	case len(b) != headSize+addresses*addressSize+host:
		return a, fmt.Errorf("it announces %d addresses and a host's name of %d bytes in %d bytes", addresses, host, len(b))
	case a.area >= maxAreas || a.slots > maxSlots:
		return a, fmt.Errorf("it announces area %d of %d slots; areas to %d and %d slots are possible", a.area, a.slots, maxAreas-1, maxSlots)
	}
	for b = b[headSize:]; addresses > 0; addresses, b = addresses-1, b[addressSize:] {
		a.addresses = append(a.addresses, netip.AddrFrom16([16]byte(b)).Unmap())
	}
	a.host = string(b)
	if a.host != "" && CheckHost(a.host) != nil {
		return a, fmt.Errorf("it announces the host's name %q, which is no label", a.host)
	}
	return a, nil
}

// same reports whether an interface announces the same as before.
func (a *announcement) same(b *announcement) bool {
	return a.life == b.life && a.mtu == b.mtu && a.area == b.area && a.slots == b.slots && a.name == b.name &&
		a.claim == b.claim && a.toAll == b.toAll && a.host == b.host && slices.Equal(a.addresses, b.addresses)
}

// printable returns a name for the log.
func printable(b []byte) string {
	s := strings.TrimRight(string(b), "\x00")
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// announce announces this interface, if its announcement has changed.
func (in *Interface) announce() error {
	a := announcement{life: in.life, mtu: in.cfg.MTU, area: -1, name: in.cfg.Name,
		addresses: in.addresses(), host: in.cfg.Host, toAll: in.cfg.AllUsers}
	if in.cfg.Picked != nil {
		a.claim = picked
	}
	if in.slots != nil {
		a.area, a.slots = in.slots.own, in.slots.count
	}
	b := a.put(make([]byte, 0, announceSize))
	if bytes.Equal(b, in.announced) {
		return nil
	}
	announce := in.c.Announce
	if in.cfg.AllUsers {
		announce = in.c.AnnounceToAll
	}
	if err := announce(b); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	in.announced = b
	return nil
}

// changes returns the announcements that have changed since the last call; those without a Value are gone.
func (in *Interface) changes() (list []nicless.Announcement, err error) {
	all, err := in.c.Announcements()
	if err != nil {
		return nil, err
	}
	now := make(map[id][]byte, len(all))
	for _, a := range all {
		at := id{a.Device, a.Client}
		now[at] = a.Value
		if !bytes.Equal(in.seen[at], a.Value) {
			list = append(list, a)
		}
	}
	for at := range in.seen {
		if now[at] == nil {
			list = append(list, nicless.Announcement{Device: at.device, Client: at.client})
		}
	}
	in.seen = now
	return list, nil
}
