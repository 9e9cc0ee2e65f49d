//go:build linux && (amd64 || arm64)

package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var be = binary.BigEndian

// Limits of what an interface announces.
const (
	MaxAddresses = 4
	MaxPeers     = 15

	maxName      = 16 // bytes
	headSize     = 40
	addressSize  = 16
	sessionSize  = 24
	announceSize = headSize + MaxAddresses*addressSize + MaxPeers*sessionSize
)

const (
	announceMagic   = 0x6e6e6574 // "nnet"
	announceVersion = 1

	flagReads = 1 // in a session: this interface reads the peer's slots
	noArea    = 0xff
)

// An announcement describes an interface, and its sessions with others.
type announcement struct {
	life      uint64 // random, of this interface from its start to its end; not 0
	mtu       int
	area      int // number of its area in the shared slots; -1: it has none
	slots     int // number of slots in that area
	name      string
	addresses []netip.Addr
	sessions  []session
}

// A session is the part of an announcement about one peer. A queue pair is offered to the peer. The peer
// connects its own to it, and announces which offer it has accepted.
type session struct {
	life uint64 // life of the peer
	// Number of the queue pair that is offered to this peer: another one for each in a life; not 0.
	offer    uint32
	accepted uint32 // the peer's offer to which the queue pair is connected; 0: none
	qpn, psn uint32 // 24 bits each
	reads    bool   // this interface can read the peer's slots
}

// errNotOurs says that an announcement is not of an interface.
var errNotOurs = errors.New("not of a network interface")

// put writes the announcement:
//
//	0   magic
//	4   version, 1
//	5   number of the area in the shared slots, 1; 255: none
//	6   MTU, 2
//	8   life, 8
//	16  number of slots, 4
//	20  number of addresses, 2
//	22  number of sessions, 2
//	24  name, 16, 0 behind it
//	40  addresses, 16 each; IPv4 mapped
//	..  sessions: life, 8; offer, 4; accepted, 4; flags, 1; QPN, 3; 0, 1; PSN, 3
func (a *announcement) put(b []byte) []byte {
	b = be.AppendUint32(b, announceMagic)
	b = append(b, announceVersion, byte(a.area)) // -1 is noArea
	b = be.AppendUint16(b, uint16(a.mtu))
	b = be.AppendUint64(b, a.life)
	b = be.AppendUint32(b, uint32(a.slots))
	b = be.AppendUint16(b, uint16(len(a.addresses)))
	b = be.AppendUint16(b, uint16(len(a.sessions)))
	var name [maxName]byte
	copy(name[:], a.name)
	b = append(b, name[:]...)
	for _, ip := range a.addresses {
		ip := ip.As16()
		b = append(b, ip[:]...)
	}
	for _, s := range a.sessions {
		b = be.AppendUint64(b, s.life)
		b = be.AppendUint32(b, s.offer)
		b = be.AppendUint32(b, s.accepted)
		flags := uint32(0)
		if s.reads {
			flags = flagReads
		}
		b = be.AppendUint32(b, flags<<24|s.qpn)
		b = be.AppendUint32(b, s.psn)
	}
	return b
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
	addresses, sessions := int(be.Uint16(b[20:])), int(be.Uint16(b[22:]))
	switch {
	case b[4] != announceVersion:
		return a, fmt.Errorf("it has version %d; this interface has version %d", b[4], announceVersion)
	case a.life == 0:
		return a, errors.New("its life is 0")
	case addresses > MaxAddresses || sessions > MaxPeers:
		return a, fmt.Errorf("it announces %d addresses and %d sessions; %d and %d are possible", addresses, sessions, MaxAddresses, MaxPeers)
	case len(b) != headSize+addresses*addressSize+sessions*sessionSize:
		return a, fmt.Errorf("it announces %d addresses and %d sessions in %d bytes", addresses, sessions, len(b))
	case a.area >= maxAreas || a.slots > maxSlots:
		return a, fmt.Errorf("it announces area %d of %d slots; areas to %d and %d slots are possible", a.area, a.slots, maxAreas-1, maxSlots)
	}
	for b = b[headSize:]; addresses > 0; addresses, b = addresses-1, b[addressSize:] {
		a.addresses = append(a.addresses, netip.AddrFrom16([16]byte(b)).Unmap())
	}
	for ; sessions > 0; sessions, b = sessions-1, b[sessionSize:] {
		flags, qpn := be.Uint32(b[16:])>>24, be.Uint32(b[16:])&0xffffff
		a.sessions = append(a.sessions, session{
			life: be.Uint64(b), offer: be.Uint32(b[8:]), accepted: be.Uint32(b[12:]),
			qpn: qpn, psn: be.Uint32(b[20:]) & 0xffffff, reads: flags&flagReads != 0,
		})
	}
	return a, nil
}

// about returns an announcement's session with a peer; the zero session if there is none.
func (a *announcement) about(life uint64) session {
	for _, s := range a.sessions {
		if s.life == life {
			return s
		}
	}
	return session{}
}

// sameLife reports whether an interface announces the same of itself as before, apart from its
// sessions. The fields that were checked once do not change in a life.
func (a *announcement) sameLife(b *announcement) bool {
	return a.life == b.life && a.mtu == b.mtu && a.area == b.area && a.slots == b.slots && a.name == b.name &&
		slices.Equal(a.addresses, b.addresses)
}

// printable returns a name for the log.
func printable(b []byte) string {
	s := strings.TrimRight(string(b), "\x00")
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
