//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/nicless/nicless/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A screen describes a program of the kernel's (classic BPF), which looks at each datagram before the
// kernel puts the datagram into the buffer of a socket. The program returns the class of the datagram. It
// finds the class by two things: whether the bytes begin like a packet, and whether the address of the
// sender is known. checkDatagram checks everything else later, such as the ICRC and the queue pair.
//
// The program sees datagrams that the kernel has joined (UDP_GRO) as one datagram: with the headers of the
// first, and the sum of the lengths. So it may let through a datagram that is no packet, and checkDatagram
// checks each datagram by itself. The program drops no packet that is expected, with one exception: a
// datagram of a stranger that was sent in one message behind a packet of a connection.
type screen struct {
	v6      bool            // for a socket of IPv6
	first   uint32          // offset of the datagram's first byte: 0, or behind a UDP header
	allowed []netip.Prefix  // senders that are allowed; nil: all
	known   addressSet      // senders of class fromKnown
	class   [classes]uint32 // what the program returns for each class
}

// A class says to which socket of a group a datagram goes.
type class uint8

const (
	fromKnown    class = iota // from an address to which this engine has requested a path
	fromStranger              // from any other address that is allowed
	unfit                     // no packet, of a connection that cannot be, or from an address not allowed
	classes
)

// Limits of a program. The kernel takes 4096 instructions, and as many bytes as net.core.optmem_max says.
// Before Linux 6.9 that was 20480 bytes. An address takes two instructions here, for which the kernel needs
// up to six of its own, of eight bytes each.
const (
	mostInstructions = 4096
	maxKnown         = 256 // addresses of a set; a set of more has prefixes in their place
	maxAllowed       = 32  // prefixes of allowed senders; with more, only Carrier.allowed checks senders
)

// netHeader is SKF_NET_OFF: a load from this offset on counts from the IP header.
const netHeader = 0xfff00000

// vendorOpcodes is the first of the opcodes that the specification leaves to manufacturers.
const vendorOpcodes = 0xc0

// An addressSet has addresses of one family, or prefixes of them.
type addressSet struct {
	bits       int       // length of each prefix
	incomplete bool      // addresses are missing, or will be soon
	words      []uint32  // one for each prefix, sorted; see wordOf
	secret     [4]uint32 // factors for the words of IPv6 addresses
}

// The prefix lengths that a set can have, from the finest to the coarsest.
var (
	prefixLengths4 = []int{32, 24, 16, 8}
	prefixLengths6 = []int{128, 64, 48, 32}
)

// newAddressSet returns the set of the addresses. If there are more than maxKnown, the set has their
// prefixes, so it also has addresses that were not named. secret has odd random numbers, so that no sender
// can choose an IPv6 address with the word of another.
func newAddressSet(addresses []netip.Addr, v6 bool, secret [4]uint32) addressSet {
	lengths := prefixLengths4
	if v6 {
		lengths = prefixLengths6
	}
	set := addressSet{secret: secret}
	for _, bits := range lengths {
		set.bits, set.words = bits, set.words[:0]
		for _, a := range addresses {
			set.words = append(set.words, set.wordOf(a))
		}
		slices.Sort(set.words)
		set.words = slices.Compact(set.words)
		if len(set.words) <= maxKnown {
			return set
		}
	}
	// The program takes the addresses that are missing for strangers'.
	set.words, set.incomplete = set.words[:maxKnown], true
	return set
}

// wordOf returns the 32 bits by which an address is found in the set: the prefix of an IPv4 address, or
// the sum of the products of secret and the words of an IPv6 prefix.
func (set *addressSet) wordOf(a netip.Addr) (sum uint32) {
	prefix, _ := a.WithZone("").Prefix(set.bits)
	b := prefix.Addr().AsSlice() // bits behind the prefix are 0
	if len(b) == 4 {
		return binary.BigEndian.Uint32(b)
	}
	for i := range wordsOf(set.bits) {
		sum += binary.BigEndian.Uint32(b[4*i:]) * set.secret[i]
	}
	return sum
}

// wordsOf returns how many 32-bit words of an address a prefix of this length is in.
func wordsOf(bits int) int { return (bits + 31) / 32 }

// maskOf returns which bits of word i of an address are in a prefix of this length.
func maskOf(bits, i int) uint32 {
	if inWord := bits - 32*i; inWord < 32 {
		return math.MaxUint32 << (32 - inWord)
	}
	return math.MaxUint32
}

// instructions are a part of a program. A and X are its registers.
type instructions = []bpf.Instruction

var (
	loadLength = bpf.LoadExtension{Num: bpf.ExtLen}
	returnA    = bpf.RetA{}
)

func and(mask uint32) bpf.Instruction { return bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask} }

func shiftRight(n uint32) bpf.Instruction { return bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: n} }

func loadConstant(v uint32) bpf.Instruction { return bpf.LoadConstant{Dst: bpf.RegA, Val: v} }

// load loads a number of the datagram, of size bytes, into A.
func (s *screen) load(offset uint32, size int) bpf.Instruction {
	return bpf.LoadAbsolute{Off: s.first + offset, Size: size}
}

// loadSource loads word i of the sender's address into A.
func (s *screen) loadSource(i int) bpf.Instruction {
	offset := uint32(12)
	if s.v6 {
		offset = 8
	}
	return bpf.LoadAbsolute{Off: netHeader + offset + 4*uint32(i), Size: 4}
}

func (s *screen) ret(c class) bpf.Instruction { return bpf.RetConstant{Val: s.class[c]} }

// unfitUnless returns instructions that end the program with class unfit if a test of A fails.
func (s *screen) unfitUnless(test bpf.JumpIf) instructions {
	test.SkipTrue = 1
	return instructions{test, s.ret(unfit)}
}

// program returns the instructions of the screen.
func (s *screen) program() ([]bpf.RawInstruction, error) {
	raw, err := bpf.Assemble(slices.Concat(s.checkForm(), s.checkAllowed(), s.checkKnown()))
	if err == nil && len(raw) > mostInstructions {
		err = fmt.Errorf("%d instructions", len(raw))
	}
	return raw, err
}

// checkForm returns instructions that end the program with class unfit if the datagram does not begin like a
// packet. Nothing is known here about the opcodes of manufacturers, so for them only the length is checked.
func (s *screen) checkForm() instructions {
	standard := slices.Concat(
		s.checkOpcode(),
		instructions{loadLength, and(3)}, // a multiple of 4
		s.unfitUnless(bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0}),
		instructions{s.load(1, 1), and(0xf)}, // transport version
		s.unfitUnless(bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0}),
		instructions{s.load(2, 2), and(defaultPKey)},
		s.unfitUnless(bpf.JumpIf{Cond: bpf.JumpEqual, Val: defaultPKey}),
	)
	least := s.first + packet.BTHSize + packet.ICRCSize
	return slices.Concat(
		instructions{loadLength},
		s.unfitUnless(bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: least}),
		instructions{
			s.load(0, 1), // opcode
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: vendorOpcodes, SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(standard))},
		},
		standard,
	)
}

// checkOpcode returns instructions that end the program with class unfit if the opcode is below
// vendorOpcodes and not known. The three high bits of an opcode name the service, the five low bits the
// operation. For each service there is a word with a bit for each operation.
func (s *screen) checkOpcode() (p instructions) {
	var operations [vendorOpcodes / 32]uint32
	for o := range vendorOpcodes {
		if packet.Opcode(o).Info().Known {
			operations[o/32] |= 1 << (o % 32)
		}
	}
	p = instructions{
		s.load(0, 1), and(31), bpf.TAX{}, // X: operation
		s.load(0, 1), shiftRight(5), // A: service
	}
	const each = 3 // instructions for each service
	for service, known := range operations {
		left := len(operations) - 1 - service
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(service), SkipTrue: each - 1},
			loadConstant(known),
			bpf.Jump{Skip: uint32(left * each)})
	}
	p = append(p, bpf.ALUOpX{Op: bpf.ALUOpShiftRight}) // bit 0 of A: whether the operation is known
	return append(p, s.unfitUnless(bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 1})...)
}

// checkAllowed returns instructions that end the program with class unfit if the sender's address is not
// allowed. They try one prefix after the other.
func (s *screen) checkAllowed() (p instructions) {
	if s.allowed == nil || len(s.allowed) > maxAllowed {
		return nil
	}
	var tests []instructions
	for _, prefix := range s.allowed {
		if prefix.Addr().Is4() == s.v6 {
			continue
		}
		tests = append(tests, s.testPrefix(prefix))
	}
	// After a test that succeeds, the program jumps over the tests that follow and over the return.
	skip := uint32(1)
	for _, test := range slices.Backward(tests) {
		test = append(test, bpf.Jump{Skip: skip})
		p = append(test, p...)
		skip += uint32(len(test))
	}
	return append(p, s.ret(unfit))
}

// testPrefix returns a test of checkAllowed: if the sender's address is not in the prefix, the program skips
// the rest of the test and the jump that follows the test.
func (s *screen) testPrefix(prefix netip.Prefix) (test instructions) {
	const each = 3 // instructions for each word
	b, words := prefix.Masked().Addr().AsSlice(), wordsOf(prefix.Bits())
	for i := range words {
		left := words - 1 - i
		test = append(test, s.loadSource(i), and(maskOf(prefix.Bits(), i)), bpf.JumpIf{
			Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(b[4*i:]), SkipFalse: uint8(each*left + 1),
		})
	}
	return test
}

// Places in the scratch memory of a program.
const (
	sumAt      = 0 // the word of the sender's IPv6 address, as far as it is added up
	strangerAt = 1 // what the program returns if the sender is a stranger
)

// checkKnown returns the end of the program: it looks the sender up in the set of known addresses, and
// returns class fromKnown, or the class of a stranger's datagram.
func (s *screen) checkKnown() (p instructions) {
	stranger := instructions{s.ret(fromStranger)}
	if s.class[fromStranger] != s.class[fromKnown] && !s.known.incomplete {
		p = s.classOfStranger()
		stranger = instructions{bpf.LoadScratch{Dst: bpf.RegA, N: strangerAt}, returnA}
	}
	if len(s.known.words) > 0 {
		p = append(p, s.sourceWord()...)
	}
	return append(p, s.search(s.known.words, stranger)...)
}

// sourceWord returns instructions that compute wordOf of the sender's address in A.
func (s *screen) sourceWord() instructions {
	set := &s.known
	if !s.v6 {
		return instructions{s.loadSource(0), and(maskOf(set.bits, 0))}
	}
	p := instructions{loadConstant(0), bpf.StoreScratch{Src: bpf.RegA, N: sumAt}}
	for i := range wordsOf(set.bits) {
		p = append(p, s.loadSource(i))
		if mask := maskOf(set.bits, i); mask != math.MaxUint32 {
			p = append(p, and(mask))
		}
		p = append(p, bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: set.secret[i]}, bpf.TAX{},
			bpf.LoadScratch{Dst: bpf.RegA, N: sumAt}, bpf.ALUOpX{Op: bpf.ALUOpAdd},
			bpf.StoreScratch{Src: bpf.RegA, N: sumAt})
	}
	return p
}

// classOfStranger returns instructions that store, at strangerAt, what the program returns if the sender
// is a stranger. A packet of a connection is unfit then, because no queue pair here is connected to a
// stranger. UD packets and the opcodes of manufacturers may come from any address.
func (s *screen) classOfStranger() instructions {
	return instructions{
		s.load(0, 1), // opcode
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: vendorOpcodes, SkipTrue: 4},
		shiftRight(5), // service
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(packet.UD), SkipTrue: 2},
		loadConstant(s.class[unfit]),
		bpf.Jump{Skip: 1},
		loadConstant(s.class[fromStranger]),
		bpf.StoreScratch{Src: bpf.RegA, N: strangerAt},
	}
}

// search returns instructions that search for A in words, and end the program: with class fromKnown if A is
// there, otherwise by the instructions of stranger. More than a few words are halved again and again.
func (s *screen) search(words []uint32, stranger instructions) (p instructions) {
	const few = 4
	if len(words) > few {
		middle := len(words) / 2
		lower, upper := s.search(words[:middle], stranger), s.search(words[middle:], stranger)
		return slices.Concat(instructions{
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: words[middle], SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(lower))},
		}, lower, upper)
	}
	for _, w := range words {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: w, SkipFalse: 1}, s.ret(fromKnown))
	}
	return append(p, stranger...)
}

// attach gives a socket a program. option is SO_ATTACH_FILTER: the program is the filter of the socket, or
// SO_ATTACH_REUSEPORT_CBPF: the program chooses among the sockets of the group.
func attach(fd, option int, program []bpf.RawInstruction) error {
	filter := make([]unix.SockFilter, len(program))
	for i, r := range program {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, option,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}
