//go:build linux && (amd64 || arm64)

package ucx

import "fmt"

// A preamble is what the side that connects sends first, over each TCP connection to the port of an engine:
//
//	0   "NICLESSU"
//	8   version of the protocol:16
//	10  kind:8: a meeting, or a connection of libucx
//	11  flags:8: of a meeting: whether the engine has keys, and whether the other one must have them
//
// An engine answers the preamble of a meeting with its own. The magic and the version keep their places in
// all versions, so engines of different versions can report that. The preamble of a connection of libucx is
// followed by a ticket and the name of the door to which the connection leads; carrier/gate.c sends all
// three.
type preamble struct {
	version     uint16
	kind, flags byte
}

const (
	preambleSize = 12
	magic        = "NICLESSU"
	protocol     = 3 // PROTOCOL of carrier/gate.c

	kindMeeting = 1 // two engines meet
	kindSocket  = 2 // a connection of libucx

	flagKeys     = 1 // the engine has keys
	flagRequired = 2 // the engine meets only engines that have keys
)

func (p preamble) append(b []byte) []byte {
	b = append(b, magic...)
	b = be.AppendUint16(b, p.version)
	return append(b, p.kind, p.flags)
}

// parsePreamble reads a preamble of preambleSize bytes. Nothing else checks the version of the protocol, at
// either side. With errVersion, the preamble is that of the other version.
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

// An errVersion is the error if the other engine speaks another version.
type errVersion struct{ theirs uint16 }

func (e errVersion) Error() string {
	return fmt.Sprintf("it speaks version %d of the protocol, this engine version %d", e.theirs, protocol)
}
