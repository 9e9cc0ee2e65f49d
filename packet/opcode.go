package packet

import "fmt"

// An Opcode is the first byte of a packet: the service in bits 7..5, the operation in
// bits 4..0.
type Opcode uint8

// A Service is a transport service, three bits.
type Service uint8

// Services.
const (
	RC  Service = 0 // reliable connection
	UC  Service = 1 // unreliable connection
	RD  Service = 2 // reliable datagram; no device has it, so its opcodes are not known here
	UD  Service = 3 // unreliable datagram
	CNP Service = 4 // congestion notification packets of RoCEv2; see OpCNP
	XRC Service = 5 // extended reliable connection
)

// An Operation is what a packet does, five bits.
type Operation uint8

// Operations.
const (
	SendFirst          Operation = 0
	SendMiddle         Operation = 1
	SendLast           Operation = 2
	SendLastImm        Operation = 3
	SendOnly           Operation = 4
	SendOnlyImm        Operation = 5
	WriteFirst         Operation = 6
	WriteMiddle        Operation = 7
	WriteLast          Operation = 8
	WriteLastImm       Operation = 9
	WriteOnly          Operation = 10
	WriteOnlyImm       Operation = 11
	ReadRequest        Operation = 12
	ReadResponseFirst  Operation = 13
	ReadResponseMiddle Operation = 14
	ReadResponseLast   Operation = 15
	ReadResponseOnly   Operation = 16
	Acknowledge        Operation = 17
	AtomicAcknowledge  Operation = 18
	CompareSwap        Operation = 19
	FetchAdd           Operation = 20
	SendLastInv        Operation = 22 // with an rkey that the responder invalidates
	SendOnlyInv        Operation = 23

	// Masked atomics, between engines of nicless only: the specification has none, and the packets of
	// mlx5 devices are not documented. It reserves these two operations. FLUSH is 28 and ATOMIC WRITE is
	// 29; 21 was RESYNC. The opcodes of manufacturers (0xc0 and up) name no service, by which a queue
	// pair knows its packets, and which says whether there is an XRCETH.
	//
	// The RETH has the address, the key, and the length of the word, 4 or 8. The operands follow as
	// payload, in the bytes that the WQE has: 32 of MaskedCompareSwap on 8 bytes, and 16 of all others.
	// The answer is AtomicAcknowledge; a word of 4 bytes is in the low half of its value.
	MaskedCompareSwap Operation = 24
	MaskedFetchAdd    Operation = 25

	// A report of what a responder has got, between engines of nicless only, which agree on it before
	// (docs/design/0090-networks-that-lose.md). The specification reserves this operation too.
	Report Operation = 26
)

// OpCNP is the opcode of a congestion notification packet, the only one of its service.
const OpCNP Opcode = 0x81

// MakeOpcode returns the opcode of an operation on a service. Only the low three bits of s
// and the low five bits of o count.
func MakeOpcode(s Service, o Operation) Opcode { return Opcode(s<<5) | Opcode(o&0x1f) }

// Service returns the service of the opcode.
func (o Opcode) Service() Service { return Service(o >> 5) }

// Operation returns the operation of the opcode.
func (o Opcode) Operation() Operation { return Operation(o & 0x1f) }

// Info returns the facts of the opcode: row o of the table in table.go. All callers share the
// row and must not change it. Opcodes that are not known have a row in which only HeaderSize
// is set. The compiler turns the call into an access to an array of 256 rows.
func (o Opcode) Info() *Info { return &infos[o] }

// String returns the name of the opcode, such as "RC_SEND_ONLY".
func (o Opcode) String() string {
	if i := o.Info(); i.Known {
		return i.Name
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(o))
}

// String returns the name of the service, such as "RC".
func (s Service) String() string {
	if int(s) < len(services) {
		return services[s]
	}
	return fmt.Sprintf("service %d", uint8(s))
}

// String returns the name of the operation, such as "SEND_ONLY".
func (o Operation) String() string {
	if int(o) < len(operations) && operations[o].name != "" {
		return operations[o].name
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

var services = [...]string{RC: "RC", UC: "UC", RD: "RD", UD: "UD", CNP: "CNP", XRC: "XRC"}
