package wqe

import "strings"

// Info holds the facts of an opcode. The posting path, the device, the dumps,
// docs/OPCODES.md and the C header opcodes.h all use it.
//
// The fields from Address to Inline describe the segments of a WQE, in their order.
type Info struct {
	Name string // mlx5's name without MLX5_OPCODE_; empty for an undefined opcode

	Address   bool   // an address segment comes first on the transports that need one
	Eth       bool   // then an Ethernet segment, whatever the transport
	Raddr     bool   // then a remote address segment
	Operand   Kind   // then this segment, 0 for none; OpMod may choose another form of it
	DataLeast uint8  // then data segments: at least this many
	DataMost  uint8  // at most this many data segments; AnyData: as many as DS has room for
	Inline    bool   // data may be inline
	Units     uint8  // units of the shortest WQE: the control segment and all of the above except Address
	Imm       ImmUse // use of the last word of the control segment

	Transports Transports // the device executes the opcode on these; 0: on none
	Local      Right      // what the keys of the data segments must allow; for MMO only the last one's key
	Remote     Right      // what the peer and the key of Raddr must allow

	// Reads: the WQE fetches bytes from the peer. The CQE counts them, the peer must allow reads in flight,
	// and FenceReads waits for the WQE.
	Reads bool

	Keys     bool  // changes a key: the next WQE needs FenceSmall
	Response uint8 // the opcode of the peer's CQE, as cqe.Opcode; 0: the operation takes no receive

	// WC is the opcode that libmlx5 reports for the requester's CQE, as cqe.WCOpcode. 255: libmlx5 does not
	// know the opcode.
	WC uint8
}

// AnyData is the DataMost of opcodes for which only DS limits the number of data
// segments.
const AnyData = MaxUnits - 1

// Known reports whether the opcode is defined.
func (i *Info) Known() bool { return i.Name != "" }

// Receive reports whether the operation takes a receive at the peer. If Raddr is
// set, the receive completes and its list is not used. Otherwise the device writes
// the message into the receive's list.
func (i *Info) Receive() bool { return i.Response != 0 }

// Atomic reports whether the operation is an atomic. [Ctrl.OperandSize] tells
// how many bytes it works on.
func (i *Info) Atomic() bool { return i.Reads && i.Operand != KindNone }

// LeastUnits returns the units of the shortest WQE on a transport. On UD and DC, that WQE has a
// compact address vector.
func (i *Info) LeastUnits(t Transport) int {
	if i.Address {
		switch t {
		case TransportXRC:
			return int(i.Units) + XRCSize/UnitSize
		case UD, DC:
			return int(i.Units) + CompactAVSize/UnitSize
		}
	}
	return int(i.Units)
}

// OpcodesOn returns the set of opcodes that the device executes on a transport.
// Bit n stands for opcode n; all of these opcodes are below 64.
func OpcodesOn(t Transport) (set uint64) {
	for o := range infos {
		if infos[o].Transports.Has(t) {
			set |= 1 << o
		}
	}
	return set
}

// An ImmUse is a use of the last word of the control segment.
type ImmUse uint8

// Uses of the control segment's last word.
const (
	ImmNone      ImmUse = iota // ignored; clients leave garbage there
	ImmData                    // the immediate, four bytes copied as they are
	ImmInvalRKey               // the rkey that the receiver invalidates
	ImmMkey                    // the mkey to change
)

// A Transport is the service of a queue pair, numbered as the st field of an
// mlx5 QP context.
type Transport uint8

// Transports.
const (
	RC           Transport = 0 // reliable connection
	UC           Transport = 1 // unreliable connection
	UD           Transport = 2 // unreliable datagram
	TransportXRC Transport = 3 // extended reliable connection; XRC is the name of its segment
	DC           Transport = 5 // dynamically connected: the side that sends (DCI)
)

// String returns the name, such as "RC".
func (t Transport) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	case TransportXRC:
		return "XRC"
	case DC:
		return "DC"
	}
	return "unknown transport"
}

// Transports is a set of transports: bit t stands for Transport t.
type Transports uint8

// Has reports whether the set holds t.
func (s Transports) Has(t Transport) bool { return s>>(t&7)&1 != 0 }

// String lists the names of the transports, such as "RC, UC".
func (s Transports) String() string {
	var names []string
	for t := RC; t <= DC; t++ {
		if s.Has(t) {
			names = append(names, t.String())
		}
	}
	return strings.Join(names, ", ")
}

// A Right is a set of access rights, with the bits of verbs (enum
// ibv_access_flags).
type Right uint8

// Rights. Reading local memory needs no right.
const (
	RightLocalWrite   Right = 1 << 0
	RightRemoteWrite  Right = 1 << 1
	RightRemoteRead   Right = 1 << 2
	RightRemoteAtomic Right = 1 << 3
)

// String lists the rights in words, such as "local write, remote read".
func (r Right) String() string {
	return setBits(uint64(r), []bitName{
		{uint64(RightLocalWrite), "local write"}, {uint64(RightRemoteWrite), "remote write"},
		{uint64(RightRemoteRead), "remote read"}, {uint64(RightRemoteAtomic), "remote atomic"},
	})
}
