//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"net/netip"
)

// The side that connects sends this first, over each TCP connection to the port of an engine:
//
//	0   "NICLESSU"
//	8   version of the protocol:16
//	10  kind:8: a meeting, or a connection of libucx
//	11  flags:8: of a meeting: whether the engine has keys, and whether the other one must have them
//
// The engine that is called answers a meeting with a preamble of its own. The magic and the version keep
// their places in all versions, so that engines of different versions can report it. After the preamble of a
// connection of libucx come a ticket and the name of the door to which it leads (carrier/gate.c).
const (
	preambleSize = 12
	protocol     = 3

	kindMeeting = 1
	kindSocket  = 2

	flagKeys     = 1 // the engine has keys
	flagRequired = 2 // it speaks only with engines that have keys

	ticketSize = 16
	doorSize   = 20
	maxDoors   = 16 // DOORS of carrier/gate.h
	maxTickets = 32 // TICKETS: how many connections libucx may make to a peer's doors
)

const magic = "NICLESSU"

type preamble struct {
	version     uint16
	kind, flags byte
}

func (p preamble) append(b []byte) []byte {
	b = append(b, magic...)
	b = be.AppendUint16(b, p.version)
	return append(b, p.kind, p.flags)
}

// parsePreamble reads a preamble. b has preambleSize bytes.
func parsePreamble(b []byte) (p preamble, err error) {
	if string(b[:len(magic)]) != magic {
		return p, errJunk
	}
	p = preamble{version: be.Uint16(b[8:]), kind: b[10], flags: b[11]}
	if p.version != protocol {
		return p, errVersion{p.version}
	}
	return p, nil
}

// An errVersion is the version of another engine.
type errVersion struct{ theirs uint16 }

func (e errVersion) Error() string {
	return fmt.Sprintf("it speaks version %d of the protocol, this engine version %d", e.theirs, protocol)
}

// A doorName names a door of libucx: where its TCP transport is said to listen (carrier/gate.h).
type doorName [doorSize]byte

// nameOf returns an address as the name of a door.
func nameOf(a netip.AddrPort) (n doorName) {
	ip := a.Addr().Unmap()
	n[1] = 6
	if ip.Is4() {
		n[1] = 4
	}
	be.PutUint16(n[2:], a.Port())
	copy(n[4:], ip.AsSlice())
	return n
}
