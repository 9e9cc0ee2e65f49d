//go:build linux && (amd64 || arm64)

package torture

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/nicless/nicless"
)

// Layout of the memory that two ends share; see memory.go.
const (
	window    = 32 // most operations in flight, and number of slots for them
	group     = 8  // operations in a group; each group ends with a message and is acknowledged
	slotSize  = 16 << 10
	largeSize = 2 << 20
	// one in so many operations is large; more than window, so that one slot for large operations is enough
	largeEvery = 64
	sourceSize = 1 << 20
	guard      = 64 // untouched bytes around all data
	maxPieces  = 4
	maxInline  = 188
	words      = 8 // targets of atomics, each on its own cache line

	smallPayload = slotSize - (2+maxPieces)*guard
	largePayload = largeSize - (2+maxPieces)*guard
)

// An Operation is one step of a Stream.
type Operation struct {
	N      uint64
	Op     nicless.Op
	Flags  nicless.Flags
	Len    int   // length of the payload
	At     int   // offset of the remote bytes in the slot, the words or the source
	Pieces []int // lengths of the pieces of local memory; nil: inline
	Large  bool
	Window bool   // the operation is a WRITE through the window that SEND_INVALs invalidate
	Add    uint64 // atomics: addend, or new value
	Hit    bool   // compare and swap: the comparison succeeds
	Mask   nicless.Mask
}

// Message reports whether the operation consumes a receive of the peer.
func (o *Operation) Message() bool {
	switch o.Op {
	case nicless.Send, nicless.SendImm, nicless.SendInval, nicless.WriteImm:
		return true
	}
	return false
}

// Atomic reports whether the operation is an atomic.
func (o *Operation) Atomic() bool {
	switch o.Op {
	case nicless.FetchAdd, nicless.CompareSwap, nicless.MaskedFetchAdd, nicless.MaskedCompareSwap:
		return true
	}
	return false
}

// Gathers reports whether the operation reads local memory; otherwise it writes local memory.
func (o *Operation) Gathers() bool {
	return !o.Atomic() && o.Op != nicless.Read && o.Op != nicless.Copy
}

// Immediate returns the immediate of a message that has one. The top bit marks
// acknowledgements.
func (o *Operation) Immediate() uint32 { return uint32(o.N) & (ackBit - 1) }

const ackBit = 1 << 31

// A Menu is the operations that a Stream chooses from.
type Menu struct {
	Ops     []nicless.Op
	Largest int  // largest payload of a message
	Large   bool // whether to choose transfers of megabytes too
	Window  bool // whether to choose WRITEs through a window too, and SEND_INVALs of the window
}

// If the number of a WRITE modulo largeEvery is windowFrom or more, the WRITE goes through a memory
// window. The last of each largeEvery operations is a SEND_INVAL that invalidates the memory
// window. Before the next use the window's owner has bound it again and has acknowledged that:
// see flow.post.
const windowFrom = window + group

// A Stream is an endless sequence of operations that is determined by its seed. Both ends of a
// connection have the seed, so both know all operations.
type Stream struct {
	menu   Menu
	random *rand.Rand
	key    uint64
	n      uint64
}

// NewStream returns the stream that a seed and a menu determine.
func NewStream(seed uint64, menu Menu) *Stream {
	return &Stream{menu: menu, random: rand.New(rand.NewPCG(seed, 0x73747265616d)), key: mix(seed)}
}

// Key returns the key of an operation's payload.
func (s *Stream) Key(n uint64) uint64 { return mix(s.key + n) }

// Next returns the next operation.
func (s *Stream) Next() Operation {
	r := s.random
	o := Operation{N: s.n, Op: s.menu.Ops[r.IntN(len(s.menu.Ops))]}
	s.n++
	last := o.N%group == group-1
	for last && !o.Message() {
		o.Op = s.menu.Ops[r.IntN(len(s.menu.Ops))]
	}
	if r.IntN(3) > 0 || last {
		o.Flags |= nicless.Signaled
	}
	if r.IntN(4) == 0 {
		o.Flags |= nicless.Solicited
	}
	if r.IntN(8) == 0 {
		o.Flags |= nicless.Fence
	}
	if o.Atomic() {
		s.atomic(&o)
		return o
	}
	if s.menu.Window {
		at := o.N % largeEvery
		switch {
		case at == largeEvery-1:
			o.Op = nicless.SendInval
		case at >= windowFrom:
			o.Window = o.Op == nicless.Write || o.Op == nicless.WriteImm
		}
	}
	room := smallPayload
	if s.menu.Large && o.N%largeEvery == largeEvery/2 && !o.Message() {
		o.Large, room = true, largePayload
		if o.Op == nicless.Read {
			room = sourceSize
		}
		o.Len = room/2 + r.IntN(room/2)
	} else {
		most := min(s.menu.Largest, room)
		switch r.IntN(8) {
		case 0:
			o.Len = 1 + r.IntN(most)
		case 1, 2:
			o.Len = 1 + r.IntN(min(most, 4096))
		case 3:
			o.Len = 8
		default:
			o.Len = 1 + r.IntN(maxInline)
		}
	}
	switch o.Op {
	case nicless.Copy:
		o.Len = min(o.Len, smallPayload)
		o.At, o.Pieces, o.Large = r.IntN(sourceSize-o.Len+1), []int{o.Len}, false
		return o
	case nicless.Read:
		o.At = r.IntN(sourceSize - o.Len + 1)
	default:
		o.At = r.IntN(room - o.Len + 1)
		if o.Len <= maxInline && r.IntN(2) == 0 {
			return o // inline
		}
	}
	o.Pieces = split(r, o.Len)
	return o
}

// atomic fills in the arguments of an atomic.
func (s *Stream) atomic(o *Operation) {
	r := s.random
	o.Len, o.At, o.Add, o.Hit = 8, r.IntN(words), r.Uint64(), r.IntN(2) == 0
	switch o.Op {
	case nicless.MaskedFetchAdd:
		o.Mask.Boundary = 1<<63 | r.Uint64()&r.Uint64()
	case nicless.MaskedCompareSwap:
		o.Mask.Swap, o.Mask.Compare = r.Uint64(), r.Uint64()|1
	}
	if o.Mask != (nicless.Mask{}) && r.IntN(2) == 0 {
		o.Len, o.Mask.Boundary = 4, 0
	}
	o.Pieces = []int{o.Len}
}

// model returns the value that the word has after the operation if its value before was old. It
// also returns the value that a compare and swap has to compare with.
func (o *Operation) model(old uint64) (next, compare uint64) {
	low := ^uint64(0)
	if o.Len == 4 {
		low = 1<<32 - 1
	}
	compare = old
	switch o.Op {
	case nicless.FetchAdd:
		return old + o.Add, 0
	case nicless.MaskedFetchAdd:
		next = addFields(old&low, o.Add&low, o.Mask.Boundary) & low
		return old&^low | next, 0
	case nicless.CompareSwap:
		if o.Hit {
			return o.Add, old
		}
		return old, old + 1 + o.Add>>1
	}
	if !o.Hit {
		return old, ^old & low
	}
	return old&^(o.Mask.Swap&low) | o.Add&o.Mask.Swap&low, old & low
}

// addFields adds fields without carries between them; boundary has the top bit of each field. It
// works bit by bit, because it serves as the specification and must be obviously right.
func addFields(a, b, boundary uint64) (sum uint64) {
	carry := uint64(0)
	for i := range 64 {
		n := a>>i&1 + b>>i&1 + carry
		sum |= n & 1 << i
		carry = n >> 1
		if boundary>>i&1 == 1 {
			carry = 0
		}
	}
	return sum
}

// split cuts n bytes into at most maxPieces pieces. No piece is empty.
func split(r *rand.Rand, n int) (pieces []int) {
	for count := r.IntN(maxPieces); count > 0 && n > 1; count-- {
		cut := 1 + r.IntN(n-1)
		pieces = append(pieces, cut)
		n -= cut
	}
	return append(pieces, n)
}

// mix is the finalizer of splitmix64: each bit of the result depends on each
// bit of v.
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// derive returns the seed for a part of the run. The numbers in parts name the part.
func derive(seed uint64, parts ...int) uint64 {
	for _, p := range parts {
		seed = mix(seed ^ mix(uint64(p)))
	}
	return seed
}

// pattern fills dst with bytes off, off+1 and so on of the payload that the key determines. The
// offset off is a multiple of 8.
func pattern(dst []byte, key uint64, off int) {
	i := uint64(off / 8)
	for ; len(dst) >= 8; dst, i = dst[8:], i+1 {
		binary.LittleEndian.PutUint64(dst, mix(key^i*0xd6e8feb86659fd93))
	}
	if len(dst) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], mix(key^i*0xd6e8feb86659fd93))
		copy(dst, last[:])
	}
}
