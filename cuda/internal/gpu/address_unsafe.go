//go:build linux && (amd64 || arm64)

package gpu

import "unsafe"

// pointerTo returns an address as a pointer, which is never to memory of Go's.
func pointerTo(address uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// at returns the bytes at an address of the process.
func at(address, n uint64) []byte { return unsafe.Slice((*byte)(pointerTo(address)), n) }
