package machine

import (
	"sync/atomic"
	"unsafe"
)

// Memory of the process, by its addresses. The callers have checked that an access is aligned and that its
// bytes may be reached; if they are not there after all, Go's runtime panics with the address.

// at returns the pointer for an address outside of Go's memory.
func at(address uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// load returns a value. Size is 1, 2, 4 or 8.
//
//go:norace
func load(address uint64, size int) uint64 {
	switch size {
	case 1:
		return uint64(*(*uint8)(at(address)))
	case 2:
		return uint64(*(*uint16)(at(address)))
	case 4:
		return uint64(*(*uint32)(at(address)))
	}
	return *(*uint64)(at(address))
}

// store stores a value.
//
//go:norace
func store(address uint64, size int, v uint64) {
	switch size {
	case 1:
		*(*uint8)(at(address)) = uint8(v)
	case 2:
		*(*uint16)(at(address)) = uint16(v)
	case 4:
		*(*uint32)(at(address)) = uint32(v)
	default:
		*(*uint64)(at(address)) = v
	}
}

// loadAcquire returns a value; what the thread that stored it with release order did before is seen after.
//
//go:norace
func loadAcquire(address uint64, size int) uint64 {
	switch size {
	case 8:
		return atomic.LoadUint64((*uint64)(at(address)))
	case 4:
		return uint64(atomic.LoadUint32((*uint32)(at(address))))
	}
	shift := address & 3 * 8
	word := atomic.LoadUint32((*uint32)(at(address &^ 3)))
	return uint64(word>>shift) & (1<<(8*size) - 1)
}

// storeRelease stores a value after everything that this thread has done.
//
//go:norace
func storeRelease(address uint64, size int, v uint64) {
	switch size {
	case 8:
		atomic.StoreUint64((*uint64)(at(address)), v)
	case 4:
		atomic.StoreUint32((*uint32)(at(address)), uint32(v))
	default:
		update(address, size, func(uint64) uint64 { return v })
	}
}

// update replaces a value by f of it, in one step, and returns the old one.
//
//go:norace
func update(address uint64, size int, f func(old uint64) uint64) uint64 {
	if size == 8 {
		p := (*uint64)(at(address))
		for {
			old := atomic.LoadUint64(p)
			if atomic.CompareAndSwapUint64(p, old, f(old)) {
				return old
			}
		}
	}
	p, shift, mask := (*uint32)(at(address&^3)), address&3*8, uint32(1<<(8*size)-1)
	for {
		word := atomic.LoadUint32(p)
		old := word >> shift & mask
		now := word&^(mask<<shift) | uint32(f(uint64(old)))&mask<<shift
		if atomic.CompareAndSwapUint32(p, word, now) {
			return uint64(old)
		}
	}
}

// add64 adds to a word, and returns its old value.
//
//go:norace
func add64(address, v uint64) uint64 { return atomic.AddUint64((*uint64)(at(address)), v) - v }

// add32 is the same for 32 bits.
//
//go:norace
func add32(address, v uint64) uint64 {
	return uint64(atomic.AddUint32((*uint32)(at(address)), uint32(v)) - uint32(v))
}

// swap replaces a value, and returns the old one.
//
//go:norace
func swap(address uint64, size int, v uint64) uint64 {
	if size == 8 {
		return atomic.SwapUint64((*uint64)(at(address)), v)
	}
	return uint64(atomic.SwapUint32((*uint32)(at(address)), uint32(v)))
}

// AddressOf returns the address of memory that is not Go's.
func AddressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// wordsOf returns bytes as words.
func wordsOf(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}
