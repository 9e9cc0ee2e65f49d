package shm

import "unsafe"

// A Number is a type of number. Slice views memory as numbers of such a type.
type Number interface {
	~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// Slice views bytes as numbers in host order, without copying. It panics if the address or
// the length of b is not a multiple of a number's size.
func Slice[T Number](b []byte) []T {
	size := int(unsafe.Sizeof(*new(T)))
	if len(b)%size != 0 {
		panic("shm: bytes that are not whole numbers")
	}
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(aligned(unsafe.Pointer(unsafe.SliceData(b)), uintptr(size))), len(b)/size)
}
