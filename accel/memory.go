package accel

import (
	"fmt"

	"github.com/nicless/nicless/internal/shm"
)

// A Registered is registered memory, such as an MR of the host API.
type Registered interface {
	Bytes() []byte
	Addr() uint64
	LKey() uint32
}

// A Buffer is memory for kernels. It is registered, so that peers can use it by its key.
// Any number of lanes and peers may use its words at once. It is valid until the
// registered memory is closed.
type Buffer struct {
	mem []byte
	ref Ref
	of  Registered // keeps the memory alive as long as the Buffer
}

// NewBuffer makes registered memory usable by kernels.
func NewBuffer(m Registered) *Buffer {
	return &Buffer{m.Bytes(), Ref{m.Addr(), m.LKey()}, m}
}

// Len returns the size in bytes.
func (b *Buffer) Len() int { return len(b.mem) }

// Ref returns the address and key of byte off, for requests.
func (b *Buffer) Ref(off int) Ref { return b.ref.At(off) }

// Bytes returns the memory. Bytes that a peer writes there may be read only after a signal
// or a completion that follows the write.
func (b *Buffer) Bytes() []byte { return b.mem }

// A Number is an element type of the slices that Slice returns.
type Number interface {
	~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// Slice returns the memory as a slice of numbers, without copying. It panics if the
// buffer's address or length is not a multiple of the size of T.
func Slice[T Number](b *Buffer) []T { return shm.Slice[T](b.mem) }

// word returns the 8 bytes at off, in host order.
func (b *Buffer) word(off int) *shm.Word64 {
	if off < 0 || off > len(b.mem)-8 || off%8 != 0 {
		panic(&refused{"word of a buffer", fmt.Errorf("offset %d; a multiple of 8 from 0 to %d is possible", off, len(b.mem)-8)})
	}
	return shm.Word64At(b.mem, uint64(off))
}

// Load returns the 8 bytes at off, which must be a multiple of 8. Everything that the
// writer of these bytes stored before them is visible afterwards.
func (b *Buffer) Load(off int) uint64 { return b.word(off).Observe() }

// Store stores v in the 8 bytes at off, after all earlier stores: a reader that sees v
// sees those stores too.
func (b *Buffer) Store(off int, v uint64) { b.word(off).Publish(v) }

// Add adds v to the 8 bytes at off and returns their old value (atomicAdd). It is one
// atomic step with respect to lanes, devices and peers.
func (b *Buffer) Add(off int, v uint64) (old uint64) {
	b.word(off)
	return shm.Add(b.mem[off:off+8], v)
}

// CompareSwap stores the value swap in the 8 bytes at off if their value is equal to the
// argument compare, and returns their old value (atomicCAS). It is one atomic step.
func (b *Buffer) CompareSwap(off int, compare, swap uint64) (old uint64) {
	b.word(off)
	for {
		old, ok := shm.Update(b.mem[off:off+8], func(v uint64) uint64 {
			if v == compare {
				return swap
			}
			return v
		})
		if ok {
			return old
		}
	}
}

// A Cmp compares a word with a value.
type Cmp uint8

// Comparisons of unsigned numbers.
const (
	EQ Cmp = iota
	NE
	GE
	GT
	LE
	LT
)

// A condition is a comparison of a word in memory. A lane waits until it holds.
type condition struct {
	word *shm.Word64
	cmp  Cmp
	v    uint64
}

// holds reports whether the word meets the condition now.
func (c *condition) holds() bool {
	v := c.word.Observe()
	switch c.cmp {
	case EQ:
		return v == c.v
	case NE:
		return v != c.v
	case GE:
		return v >= c.v
	case GT:
		return v > c.v
	case LE:
		return v <= c.v
	}
	return v < c.v
}

// WaitUntil waits until the comparison cmp of the 8 bytes at off with v is true
// (nvshmem_signal_wait_until). Bytes that were written before these 8 bytes are visible
// then.
func (t *Thread) WaitUntil(b *Buffer, off int, cmp Cmp, v uint64) {
	t.drainPuts()
	c := condition{b.word(off), cmp, v}
	if !c.holds() {
		t.lane.until = c
		t.lane.pause(forWord)
	}
}
