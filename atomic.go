package nicless

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/internal/shm"
)

// The methods in this file access words that the program and the device use at the
// same time: flags, counters, targets of RDMA atomics. The words are in the byte order
// of the host, which the device's atomics use too. off counts bytes from the beginning
// of the MR. The word must be within the MR, at an address that is a multiple of the
// word's size.
//
// For any other word, and after Close, the methods panic on the calling goroutine, as
// an index out of the range of a slice does. Each method takes effect in one atomic
// instruction, with respect to the program's goroutines, to other processes that share
// the memory, and to the device.

// word returns the n bytes at off.
func (m *MR) word(off, n int) []byte {
	b := m.Bytes()
	if b == nil {
		panic("nicless: memory is closed, or was never registered")
	}
	if off < 0 || off > len(b)-n {
		panic(fmt.Sprintf("nicless: word of %d bytes at offset %d; the memory has %d", n, off, len(b)))
	}
	b = b[off : off+n]
	if !shm.Aligned(b) {
		panic(fmt.Sprintf("nicless: word of %d bytes at offset %d; its address is not a multiple of %d", n, off, n))
	}
	return b
}

// Load64 returns the 8 bytes at off, for instance the target of an RDMA atomic, or the
// old value that an RDMA atomic has returned. Everything that the writer of these bytes
// stored before them is visible afterwards.
func (m *MR) Load64(off int) uint64 { return shm.Word64At(m.word(off, 8), 0).Observe() }

// Store64 stores v in the 8 bytes at off, after all earlier stores: a reader that sees v
// sees those stores too. A later load may still be executed before the store of v.
func (m *MR) Store64(off int, v uint64) { shm.Word64At(m.word(off, 8), 0).Publish(v) }

// Add64 adds delta to the 8 bytes at off and returns the sum, as atomic.AddUint64
// does. The sum wraps.
func (m *MR) Add64(off int, delta uint64) (sum uint64) { return shm.Add(m.word(off, 8), delta) + delta }

// CompareAndSwap64 stores v in the 8 bytes at off if their value is equal to the argument
// old, and reports whether it stored v, as atomic.CompareAndSwapUint64 does.
func (m *MR) CompareAndSwap64(off int, old, v uint64) (swapped bool) {
	b := m.word(off, 8)
	for {
		if was, ok := shm.CompareAndSwap(b, old, v); ok {
			return was == old
		}
	}
}

// Load32 is Load64 for 4 bytes.
func (m *MR) Load32(off int) uint32 {
	return bits.ReverseBytes32(shm.BE32At(m.word(off, 4), 0).Observe())
}

// Store32 is Store64 for 4 bytes.
func (m *MR) Store32(off int, v uint32) {
	shm.BE32At(m.word(off, 4), 0).Publish(bits.ReverseBytes32(v))
}

// Add32 is Add64 for 4 bytes.
func (m *MR) Add32(off int, delta uint32) (sum uint32) {
	b := m.word(off, 4)
	for {
		if was, ok := shm.Update(b, func(old uint64) uint64 { return old + uint64(delta) }); ok {
			return uint32(was) + delta
		}
	}
}

// CompareAndSwap32 is CompareAndSwap64 for 4 bytes.
func (m *MR) CompareAndSwap32(off int, old, v uint32) (swapped bool) {
	b := m.word(off, 4)
	for {
		was, ok := shm.Update(b, func(now uint64) uint64 {
			if uint32(now) == old {
				return uint64(v)
			}
			return now
		})
		if ok {
			return uint32(was) == old
		}
	}
}

// Old32 returns the 4 bytes at off as a number, if a masked atomic of 4 bytes has written
// the old value of its target there. As on hardware, that old value is big-endian in
// memory, unlike the target. Old32 is not an atomic load: call it after the completion of
// the masked atomic. off need not be a multiple of 4.
func (m *MR) Old32(off int) uint32 {
	b := m.Bytes()
	if off < 0 || off > len(b)-4 {
		panic(fmt.Sprintf("nicless: 4 bytes at offset %d; the memory has %d", off, len(b)))
	}
	return binary.BigEndian.Uint32(b[off:])
}
