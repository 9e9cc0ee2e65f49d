package shm

import "unsafe"

// An Area is memory of which the caller knows how long it is: its methods check no offset, as Ring.At checks
// no index. Slices check each offset twice, which takes a sixth of the instructions of a loop that moves
// short payloads. The zero Area has no memory; its methods must not be called.
type Area struct{ first unsafe.Pointer }

// AreaOf returns b as an area.
func AreaOf(b []byte) Area { return Area{unsafe.Pointer(unsafe.SliceData(b))} }

// Area returns the block as an area.
func (p *Block) Area() Area { return Area{unsafe.Pointer(p)} }

// From returns the area from an offset on.
func (a Area) From(at uint64) Area { return Area{unsafe.Add(a.first, at)} }

// Load returns the eight bytes at an offset, in the order of the host. The offset need not be aligned.
func (a Area) Load(at uint64) uint64 { return *(*uint64)(unsafe.Add(a.first, at)) }

// Store stores the eight bytes at an offset, in the order of the host.
func (a Area) Store(at, v uint64) { *(*uint64)(unsafe.Add(a.first, at)) = v }

// Copy copies the first n bytes of src, as the built-in copy does.
//
//go:noinline
func (a Area) Copy(src Area, n uint64) {
	copy(unsafe.Slice((*byte)(a.first), n), unsafe.Slice((*byte)(src.first), n))
}
