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

// A screen is a program of the kernel's (classic BPF) that looks at each datagram before it is
// put into a socket's buffer. It sorts by what can be seen at once: whether the bytes begin like
// a packet, and from which address they come. The CRC, the queue pair and everything else is
// checked later, by checkDatagram.
//
// Datagrams that the kernel has joined (UDP_GRO) are seen as one: with the headers of the
// first, and the sum of the lengths. So a screen may let something through that is no
// packet, and checkDatagram sees every datagram by itself. It drops no packet that is expected,
// except a datagram that a stranger has sent in one message behind a packet of a connection.
type screen struct {
	v6      bool
	at      uint32 // offset of the datagram's first byte: behind the UDP header, or at it
	allowed []netip.Prefix
	known   known
	class   [classes]uint32 // what the program returns for each class
}

// A class is where a datagram goes.
type class uint8

const (
	fromKnown    class = iota // from an address to which this engine has requested a path
	fromStranger              // from another one
	unfit                     // no packet, of an impossible connection, or of an address that is not allowed
	classes
)

// Limits of a screen. The kernel takes 4096 instructions, and as many bytes as
// net.core.optmem_max says, which was 20480 before Linux 6.9: an address takes two instructions
// here, and up to six of eight bytes in the kernel.
const (
	maxKnown   = 256        // addresses; with more, prefixes of them are known
	maxAllowed = 32         // prefixes; more are left to Carrier.allowed
	netHeader  = 0xfff00000 // SKF_NET_OFF: loads count from the IP header
)

// vendorOpcodes is the first of the opcodes that the specification leaves to manufacturers.
const vendorOpcodes = 0xc0

// known is a set of addresses of one family, or of their prefixes.
type known struct {
	bits   int      // of the prefixes
	part   bool     // some are missing
	words  []uint32 // sorted: IPv4 addresses, or the keyed sums of IPv6 addresses
	secret [4]uint32
}

// The prefix lengths of a set, from the finest to the coarsest.
var (
	steps4 = []int{32, 24, 16, 8}
	steps6 = []int{128, 64, 48, 32}
)

// makeKnown returns the set of addresses. If there are more than maxKnown, it is one of their
// prefixes, so it has addresses too that were not named. secret holds odd random numbers, so
// that no sender can choose an IPv6 address with the sum of another.
func makeKnown(addresses []netip.Addr, v6 bool, secret [4]uint32) known {
	steps := steps4
	if v6 {
		steps = steps6
	}
	k := known{secret: secret}
	for _, bits := range steps {
		k.bits, k.words = bits, k.words[:0]
		for _, a := range addresses {
			k.words = append(k.words, k.word(a))
		}
		slices.Sort(k.words)
		k.words = slices.Compact(k.words)
		if len(k.words) <= maxKnown {
			return k
		}
	}
	k.words, k.part = k.words[:maxKnown], true // the others are strangers to the kernel
	return k
}

// word returns the number by which an address is found in the set.
func (k *known) word(a netip.Addr) (sum uint32) {
	p, _ := a.WithZone("").Prefix(k.bits)
	b := p.Addr().AsSlice()
	if len(b) == 4 {
		return binary.BigEndian.Uint32(b)
	}
	for i := range k.bits / 32 {
		sum += binary.BigEndian.Uint32(b[4*i:]) * k.secret[i]
	}
	return sum + prefixTail(b, k.bits, k.secret)
}

// prefixTail is the last word of an IPv6 prefix whose length is no multiple of 32.
func prefixTail(b []byte, bits int, secret [4]uint32) uint32 {
	if bits%32 == 0 {
		return 0
	}
	return binary.BigEndian.Uint32(b[bits/32*4:]) * secret[bits/32]
}

// program returns the instructions of the screen.
func (s *screen) program() ([]bpf.RawInstruction, error) {
	p := s.form()
	p = append(p, s.permitted()...)
	p = append(p, s.peer()...)
	raw, err := bpf.Assemble(p)
	if err == nil && len(raw) > 4096 {
		err = fmt.Errorf("%d instructions", len(raw))
	}
	return raw, err
}

func (s *screen) ret(c class) bpf.Instruction { return bpf.RetConstant{Val: s.class[c]} }

// form checks what every packet begins with. Opcodes of manufacturers are not known here, so
// only the least length is checked for them.
func (s *screen) form() []bpf.Instruction {
	var bitmap [vendorOpcodes / 32]uint32
	for o := range vendorOpcodes {
		if packet.Opcode(o).Info().Known {
			bitmap[o/32] |= 1 << (o % 32)
		}
	}
	opcode := bpf.LoadAbsolute{Off: s.at, Size: 1}
	unfitUnless := func(j bpf.JumpIf) []bpf.Instruction {
		j.SkipTrue = 1
		return []bpf.Instruction{j, s.ret(unfit)}
	}
	var table []bpf.Instruction // the word of the opcode's service in A, its operation in X
	table = append(table, opcode, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 31}, bpf.TAX{}, opcode,
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 5})
	for i, w := range bitmap {
		left := uint32(len(bitmap)-1-i) * 3
		table = append(table, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(i), SkipTrue: 2},
			bpf.LoadConstant{Dst: bpf.RegA, Val: w}, bpf.Jump{Skip: left})
	}
	table = append(table, bpf.ALUOpX{Op: bpf.ALUOpShiftRight})
	table = append(table, unfitUnless(bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 1})...)
	table = append(table, bpf.LoadExtension{Num: bpf.ExtLen}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 3})
	table = append(table, unfitUnless(bpf.JumpIf{Cond: bpf.JumpEqual})...)
	table = append(table, bpf.LoadAbsolute{Off: s.at + 1, Size: 1}, // version
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf})
	table = append(table, unfitUnless(bpf.JumpIf{Cond: bpf.JumpEqual})...)
	table = append(table, bpf.LoadAbsolute{Off: s.at + 2, Size: 2},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: defaultPKey})
	table = append(table, unfitUnless(bpf.JumpIf{Cond: bpf.JumpEqual, Val: defaultPKey})...)

	p := append([]bpf.Instruction{bpf.LoadExtension{Num: bpf.ExtLen}},
		unfitUnless(bpf.JumpIf{
			Cond: bpf.JumpGreaterOrEqual, Val: s.at + packet.BTHSize + packet.ICRCSize,
		})...)
	p = append(p, opcode, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: vendorOpcodes, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(table))})
	return append(p, table...)
}

// source loads a word of the sender's address into A.
func (s *screen) source(word uint32) bpf.Instruction {
	if s.v6 {
		return bpf.LoadAbsolute{Off: netHeader + 8 + 4*word, Size: 4}
	}
	return bpf.LoadAbsolute{Off: netHeader + 12, Size: 4}
}

// permitted checks that the sender is among the addresses that are allowed.
func (s *screen) permitted() (p []bpf.Instruction) {
	if s.allowed == nil || len(s.allowed) > maxAllowed {
		return nil
	}
	var tests [][]bpf.Instruction
	for _, a := range s.allowed {
		if a.Addr().Is4() == s.v6 {
			continue
		}
		// A word that differs goes on with the next prefix: three instructions for each word.
		var test []bpf.Instruction
		b, words := a.Masked().Addr().AsSlice(), (a.Bits()+31)/32
		for i := range words {
			mask := uint32(math.MaxUint32)
			if rest := a.Bits() - 32*i; rest < 32 {
				mask <<= 32 - rest
			}
			next := uint8(3*(words-1-i) + 1)
			word := binary.BigEndian.Uint32(b[4*i:]) & mask
			test = append(test, s.source(uint32(i)), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
				bpf.JumpIf{Cond: bpf.JumpEqual, Val: word, SkipFalse: next})
		}
		tests = append(tests, test)
	}
	after := uint32(1) // instructions from the end of a test to the end: the return
	for i := len(tests) - 1; i >= 0; i-- {
		test := append(tests[i], bpf.Jump{Skip: after})
		p = append(test, p...)
		after += uint32(len(test))
	}
	return append(p, s.ret(unfit))
}

// peer looks the sender up among the addresses that are known.
func (s *screen) peer() (p []bpf.Instruction) {
	k := &s.known
	switch {
	case len(k.words) == 0:
	case !s.v6:
		p = append(p, s.source(0), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: math.MaxUint32 << (32 - k.bits)})
	default:
		p = append(p, bpf.LoadConstant{Dst: bpf.RegA}, bpf.StoreScratch{Src: bpf.RegA})
		for i := range (k.bits + 31) / 32 {
			p = append(p, s.source(uint32(i)))
			if rest := k.bits - 32*i; rest < 32 {
				p = append(p, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: math.MaxUint32 << (32 - rest)})
			}
			p = append(p, bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: k.secret[i]}, bpf.TAX{},
				bpf.LoadScratch{Dst: bpf.RegA}, bpf.ALUOpX{Op: bpf.ALUOpAdd}, bpf.StoreScratch{Src: bpf.RegA})
		}
	}
	stranger := []bpf.Instruction{s.ret(fromStranger)}
	if s.class[fromStranger] != s.class[fromKnown] && !s.known.part {
		p = append(s.uninvited(), p...)
		stranger = []bpf.Instruction{bpf.LoadScratch{Dst: bpf.RegA, N: strangersAt}, bpf.RetA{}}
	}
	return append(p, s.search(s.known.words, stranger)...)
}

// strangersAt is the place of the program's memory that has what it returns for strangers.
const strangersAt = 1

// uninvited notes what the program returns if the sender is a stranger: unfit for packets of a
// connection, because no queue pair here is connected to a stranger. Datagrams and the
// opcodes of manufacturers may come from any address.
func (s *screen) uninvited() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: s.at, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: vendorOpcodes, SkipTrue: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 5},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(packet.UD), SkipTrue: 2},
		bpf.LoadConstant{Dst: bpf.RegA, Val: s.class[unfit]},
		bpf.Jump{Skip: 1},
		bpf.LoadConstant{Dst: bpf.RegA, Val: s.class[fromStranger]},
		bpf.StoreScratch{Src: bpf.RegA, N: strangersAt},
	}
}

// search returns a binary search for A; stranger is what is done if it is not there.
func (s *screen) search(words []uint32, stranger []bpf.Instruction) (p []bpf.Instruction) {
	const few = 4
	if len(words) > few {
		middle := len(words) / 2
		left, right := s.search(words[:middle], stranger), s.search(words[middle:], stranger)
		p = append(p, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: words[middle], SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(left))})
		return append(append(p, left...), right...)
	}
	for _, w := range words {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: w, SkipFalse: 1}, s.ret(fromKnown))
	}
	return append(p, stranger...)
}

// attach gives a program to a socket: as its filter (SO_ATTACH_FILTER), or as what chooses among
// the sockets of its group (SO_ATTACH_REUSEPORT_CBPF).
func attach(fd, option int, program []bpf.RawInstruction) error {
	filter := make([]unix.SockFilter, len(program))
	for i, r := range program {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, option,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}
