package wqe

import "strings"

// Info holds the facts of an opcode. The posting path, the device, the dumps,
// docs/OPCODES.md and the C header opcodes.h take them from here.
//
// The segments of a WQE come in the order of the first fields.
type Info struct {
	Name string // as mlx5 has it, without MLX5_OPCODE_; empty for an undefined opcode

	Address   bool   // an address segment comes first on the transports that need one
	Eth       bool   // an Ethernet segment, whatever the transport
	Raddr     bool   // a remote address segment
	Operand   Kind   // then this segment, 0 for none; the opmod may choose another form of it
	DataLeast uint8  // then data segments: at least so many,
	DataMost  uint8  // and at most so many; AnyData: as DS leaves room for
	Inline    bool   // data may be inline
	Units     uint8  // of the shortest WQE: control segment and the above, without Address
	Imm       ImmUse // use of the last word of the control segment

	Transports Transports // on which the device executes it; 0: it executes it nowhere
	Local      Right      // that the keys of its data segments must give; of MMO only the last one's
	Remote     Right      // that the peer and the key of Raddr must give
	Reads      bool       // brings bytes from the peer: its CQE counts them, the peer must allow reads in flight, and FenceReads waits for it
	Keys       bool       // changes a key: the next WQE needs FenceSmall
	Response   uint8      // the opcode of the peer's CQE, as cqe.Opcode; 0: it takes no receive
	WC         uint8      // the opcode that libmlx5 reports for the requester's CQE, as cqe.WCOpcode; 255: it does not know the operation
}

// AnyData is the DataMost of opcodes whose data segments are limited by DS alone.
const AnyData = MaxUnits - 1

// Known reports whether the opcode is defined.
func (i *Info) Known() bool { return i.Name != "" }

// Receive reports whether the operation takes a receive at the peer. With Raddr
// it is completed without data, else the message is written into its list.
func (i *Info) Receive() bool { return i.Response != 0 }

// Atomic reports whether the operation is an atomic. [Ctrl.OperandSize] tells
// how many bytes it works on.
func (i *Info) Atomic() bool { return i.Reads && i.Operand != KindNone }

// LeastUnits returns the units of the shortest WQE on a transport.
func (i *Info) LeastUnits(t Transport) int {
	if i.Address && t == UD {
		return int(i.Units) + AVSize/UnitSize
	}
	return int(i.Units)
}

// OpcodesOn returns the set of opcodes that the device executes on a transport:
// bit n is opcode n. All of them are below 64.
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
	RC Transport = 0 // reliable connection
	UC Transport = 1 // unreliable connection
	UD Transport = 2 // unreliable datagram
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
	for t := RC; t <= UD; t++ {
		if s.Has(t) {
			names = append(names, t.String())
		}
	}
	return strings.Join(names, ", ")
}

// A Right is a set of access rights, by the verbs numbers (enum
// ibv_access_flags).
type Right uint8

// Rights. Reading local memory needs none.
const (
	RightLocalWrite   Right = 1 << 0
	RightRemoteWrite  Right = 1 << 1
	RightRemoteRead   Right = 1 << 2
	RightRemoteAtomic Right = 1 << 3
)

// String lists the rights in words, such as "local write, remote read".
func (r Right) String() string {
	return bits(uint64(r), []bitName{
		{uint64(RightLocalWrite), "local write"}, {uint64(RightRemoteWrite), "remote write"},
		{uint64(RightRemoteRead), "remote read"}, {uint64(RightRemoteAtomic), "remote atomic"},
	})
}
