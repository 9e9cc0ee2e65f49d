package shm

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/nicless/nicless/internal/cpu"
)

// Doorbell records, registers and CQEs are big-endian, and all machines that nicless runs on are
// little-endian. So Publish and Observe of their words swap bytes. Those of Word64 do not: the
// words of the status page, a format of nicless, are in host order.
type (
	// A BE32 is a big-endian 32-bit word in shared memory: half of a doorbell
	// record, for instance.
	BE32 struct{ w uint32 }
	// A BE64 is a big-endian 64-bit word in shared memory: a UAR register.
	BE64 struct{ w uint64 }
	// A Word64 is a 64-bit word in host order in shared memory.
	Word64 struct{ w uint64 }
	// A Block is 64 bytes of shared memory on a 64-byte boundary: a cache line,
	// a WQEBB, a CQE.
	Block [64]byte
)

// BE32At returns the word at b[off:off+4]. It panics if the word is not inside b or not aligned
// to its size. Callers check offsets that come from a client first.
func BE32At(b []byte, off uint64) *BE32 {
	return (*BE32)(aligned(unsafe.Pointer((*[4]byte)(b[off:])), 4))
}

// BE64At is BE32At for 8 bytes.
func BE64At(b []byte, off uint64) *BE64 {
	return (*BE64)(aligned(unsafe.Pointer((*[8]byte)(b[off:])), 8))
}

// Word64At is BE32At for 8 bytes in host order.
func Word64At(b []byte, off uint64) *Word64 {
	return (*Word64)(aligned(unsafe.Pointer((*[8]byte)(b[off:])), 8))
}

// BlockAt returns the block at b[off:off+64]. It panics when the block is not
// inside b or not on a 64-byte boundary.
func BlockAt(b []byte, off uint64) *Block {
	return (*Block)(aligned(unsafe.Pointer((*[64]byte)(b[off:])), 64))
}

// Blocks views b as blocks, without copying. It panics if b is not whole blocks, or does not begin
// on a 64-byte boundary.
func Blocks(b []byte) []Block {
	if len(b) == 0 || len(b)%64 != 0 {
		panic("shm: bytes that are not whole blocks")
	}
	return unsafe.Slice((*Block)(aligned(unsafe.Pointer(unsafe.SliceData(b)), 64)), len(b)/64)
}

// Observe returns the word's value. Everything that the writer stored before it published this
// value is visible to the caller afterwards.
func (p *BE32) Observe() uint32 { return bits.ReverseBytes32(atomic.LoadUint32(&p.w)) }

// Prefetch starts to bring the word's cache line into the cache of this core, for an Observe that
// follows soon. It reads and changes nothing. p may be nil.
func (p *BE32) Prefetch() { cpu.PrefetchLines((*byte)(unsafe.Pointer(p)), 1) }

// Publish stores v after everything stored before. Each word has one writer.
//
// All methods Publish convert p. To check &p.w, the compiler would load a byte of the word first, and so
// fetch a line that is about to be stored to.
func (p *BE32) Publish(v uint32) { storeRel32((*uint32)(unsafe.Pointer(p)), bits.ReverseBytes32(v)) }

// Observe returns the word's value, as BE32.Observe does.
func (p *BE64) Observe() uint64 { return bits.ReverseBytes64(atomic.LoadUint64(&p.w)) }

// Publish stores v after everything stored before. Each word has one writer.
func (p *BE64) Publish(v uint64) { storeRel64((*uint64)(unsafe.Pointer(p)), bits.ReverseBytes64(v)) }

// Observe returns the word's value, as BE32.Observe does.
func (p *Word64) Observe() uint64 { return atomic.LoadUint64(&p.w) }

// Publish stores v after everything stored before. Each word has one writer.
func (p *Word64) Publish(v uint64) { storeRel64((*uint64)(unsafe.Pointer(p)), v) }

// PublishFirst stores v before everything that is stored after it: an observer that sees a later store
// sees v too.
func (p *Word64) PublishFirst(v uint64) { storeFirst64((*uint64)(unsafe.Pointer(p)), v) }

// Publish stores the 64 bytes of src. The last eight become visible together, after the
// others: a reader that observes them, or a word of them, finds all 64 bytes.
func (p *Block) Publish(src *[64]byte) { publishBlock((*[64]byte)(p), src) }

// PublishHead overwrites a block that may be read meanwhile. It stores 0 in the first eight
// bytes, then the other 56 bytes of src, then the first eight bytes of src. A reader that loads
// the same first word before and after the other bytes (see Snapshot) has read one consistent
// block.
func (p *Block) PublishHead(src *[64]byte) { publishHead((*[64]byte)(p), src) }

// PublishFirst stores the first eight bytes, big-endian, after everything stored before.
func (p *Block) PublishFirst(v uint64) {
	storeRel64((*uint64)(unsafe.Pointer(p)), bits.ReverseBytes64(v))
}

// Snapshot copies the block to dst. The argument first is the value of the block's first word, a
// big-endian number, which the caller has loaded before. Snapshot returns whether the copy is
// consistent, that is, whether the first word still has that value after the copy.
func (p *Block) Snapshot(dst *[64]byte, first uint64) bool {
	le := binary.LittleEndian
	le.PutUint64(dst[:], bits.ReverseBytes64(first))
	for i := 8; i < len(dst); i += 8 {
		le.PutUint64(dst[i:i+8], atomic.LoadUint64((*uint64)(unsafe.Pointer(&p[i]))))
	}
	return p.Word(0) == first
}

// PublishTail stores the last eight bytes, big-endian, after everything stored before, including
// the block's other bytes. A CQE is written in this way: plain stores first, then the word that
// its reader polls.
func (p *Block) PublishTail(v uint64) {
	storeRel64((*uint64)(unsafe.Pointer(&p[56])), bits.ReverseBytes64(v))
}

// ObserveTail returns the last eight bytes as a big-endian number, so that
// byte 63 is the low one.
func (p *Block) ObserveTail() uint64 {
	return bits.ReverseBytes64(atomic.LoadUint64((*uint64)(unsafe.Pointer(&p[56]))))
}

// Word returns the eight bytes at offset 8*i as a big-endian number; i is 0 to 7. It reads them with a
// single atomic load, so later stores cannot change a decision that depends on the result.
func (p *Block) Word(i uint) uint64 {
	return bits.ReverseBytes64(atomic.LoadUint64((*uint64)(unsafe.Pointer(&p[i&7<<3]))))
}

// address returns the address of b's first byte. The number is used for comparisons and is sent
// to the device; it is never converted back into a pointer.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Page returns the number of the page of 4 KiB in which b begins. Numbers are only compared with
// each other.
func Page(b []byte) uint64 { return address(b) >> 12 }

// aligned returns p. It panics if p is not a multiple of size. To get p, callers convert a slice
// to an array pointer. The conversion checks the length of the slice; slicing would only check
// its capacity.
func aligned(p unsafe.Pointer, size uintptr) unsafe.Pointer {
	if uintptr(p)&(size-1) != 0 {
		panic("shm: word is not aligned")
	}
	return p
}
