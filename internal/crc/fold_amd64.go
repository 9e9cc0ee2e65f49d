package crc

import (
	"hash/crc32"

	"github.com/klauspost/cpuid/v2"
)

// canFold is CPUID leaf 7, ecx bit 10, and that the kernel keeps the vector registers.
var canFold = cpuid.CPU.Supports(cpuid.VPCLMULQDQ, cpuid.AVX2)

const (
	foldSize  = 128          // fold works on so many bytes at a time
	leastFold = 2 * foldSize // from so many bytes on, it is faster than hash/crc32
)

// Update returns the CRC of bytes whose CRC is crc, and then b, as crc32.Update with crc32.IEEETable. It
// allocates nothing, and any number of goroutines may use it.
func Update(crc uint32, b []byte) uint32 {
	if canFold && len(b) >= leastFold {
		n := len(b) &^ (foldSize - 1)
		crc, b = ^fold(&b[0], uint64(n), ^crc), b[n:]
	}
	if len(b) == 0 {
		return crc
	}
	return crc32.Update(crc, crc32.IEEETable, b)
}

// fold returns the state of the CRC after n bytes, at least foldSize and a multiple of it. state is that
// before them. A state is the CRC with all its bits inverted.
//
//go:noescape
func fold(b *byte, n uint64, state uint32) uint32
