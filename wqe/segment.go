package wqe

import "encoding/binary"

// Sizes of the segments that name memory.
const (
	RaddrSize     = 16
	DataSize      = 16
	AtomicSize    = 16
	MaskedCS4Size = 16
	MaskedCS8Size = 32
	MaskedFA4Size = 16
	MaskedFA8Size = 16
)

// Raddr names remote memory (mlx5_wqe_raddr_seg).
type Raddr struct {
	Addr uint64
	RKey uint32
	Rsvd uint32 // ignored; some clients leave garbage there
}

// ParseRaddr reads a remote address segment.
func ParseRaddr(src *[RaddrSize]byte) Raddr {
	be := binary.BigEndian
	return Raddr{be.Uint64(src[0:8]), be.Uint32(src[8:12]), be.Uint32(src[12:16])}
}

// Put writes the remote address segment.
func (r Raddr) Put(dst *[RaddrSize]byte) {
	PutUnit(dst, r.Addr, uint64(r.RKey)<<32|uint64(r.Rsvd))
}

// Values of a data segment's first two words.
const (
	KeyEnd     = 0x100     // lkey of a receive list's last segment, of byte count 0 (MLX5_INVALID_LKEY)
	InlineFlag = 1 << 31   // in the byte count: bytes follow in place of a pointer (MLX5_INLINE_SEG)
	InlineMask = 0x3ff     // in the byte count: the length of an inline segment
	InlineHead = 4         // size of the header of an inline segment, in bytes
	MaxInline  = 62*16 - 4 // largest number of bytes in one inline segment; only a SEND has room for so many
	MaxPointer = 1 << 31   // most bytes that one data segment can point at; its byte count is then 0
)

// Data points at local memory (mlx5_wqe_data_seg). A message without data has no data
// segment, because a byte count of 0 stands for 2^31 bytes.
type Data struct {
	ByteCount uint32 // the stored number; InlineFlag in it says that the segment is not a pointer
	LKey      uint32
	Addr      uint64
}

// ParseData reads a data segment.
func ParseData(src *[DataSize]byte) Data {
	be := binary.BigEndian
	return Data{be.Uint32(src[0:4]), be.Uint32(src[4:8]), be.Uint64(src[8:16])}
}

// Put writes the data segment.
func (d Data) Put(dst *[DataSize]byte) {
	PutUnit(dst, uint64(d.ByteCount)<<32|uint64(d.LKey), d.Addr)
}

// Inline reports whether the segment holds its bytes instead of pointing at them.
func (d Data) Inline() bool { return d.ByteCount&InlineFlag != 0 }

// Length returns the number of bytes that the pointer stands for, 1 to MaxPointer.
func (d Data) Length() uint64 {
	if n := d.ByteCount &^ InlineFlag; n != 0 {
		return uint64(n)
	}
	return MaxPointer
}

// End reports whether the segment ends a receive list.
func (d Data) End() bool { return d.ByteCount == 0 && d.LKey == KeyEnd }

// InlineUnits returns how many units an inline segment of n bytes takes.
func InlineUnits(n int) int { return (InlineHead + n + UnitSize - 1) / UnitSize }

// InlineLength returns the length of an inline segment's data; byteCount is the
// segment's first word.
func InlineLength(byteCount uint32) int { return int(byteCount & InlineMask) }

// Atomic holds the operands of an 8-byte atomic (mlx5_wqe_atomic_seg).
type Atomic struct {
	SwapAdd uint64 // the new value, or the addend
	Compare uint64 // ignored by fetch-and-add
}

// ParseAtomic reads an atomic segment.
func ParseAtomic(src *[AtomicSize]byte) Atomic {
	be := binary.BigEndian
	return Atomic{be.Uint64(src[0:8]), be.Uint64(src[8:16])}
}

// Put writes the atomic segment.
func (a Atomic) Put(dst *[AtomicSize]byte) {
	PutUnit(dst, a.SwapAdd, a.Compare)
}

// MaskedCS4 holds the operands of a masked compare-and-swap of 4 bytes. If the old
// value and Compare agree in the bits of CompareMask, the bits in SwapMask are replaced
// by those of Swap.
type MaskedCS4 struct{ Swap, Compare, SwapMask, CompareMask uint32 }

// ParseMaskedCS4 reads the operands.
func ParseMaskedCS4(src *[MaskedCS4Size]byte) MaskedCS4 {
	be := binary.BigEndian
	return MaskedCS4{be.Uint32(src[0:4]), be.Uint32(src[4:8]), be.Uint32(src[8:12]), be.Uint32(src[12:16])}
}

// Put writes the operands.
func (m MaskedCS4) Put(dst *[MaskedCS4Size]byte) {
	PutUnit(dst, uint64(m.Swap)<<32|uint64(m.Compare), uint64(m.SwapMask)<<32|uint64(m.CompareMask))
}

// MaskedCS8 is MaskedCS4 for 8 bytes (mlx5_wqe_masked_atomic_seg).
type MaskedCS8 struct{ Swap, Compare, SwapMask, CompareMask uint64 }

// ParseMaskedCS8 reads the operands.
func ParseMaskedCS8(src *[MaskedCS8Size]byte) MaskedCS8 {
	be := binary.BigEndian
	return MaskedCS8{be.Uint64(src[0:8]), be.Uint64(src[8:16]), be.Uint64(src[16:24]), be.Uint64(src[24:32])}
}

// Put writes the operands.
func (m MaskedCS8) Put(dst *[MaskedCS8Size]byte) {
	PutUnit((*[UnitSize]byte)(dst[:UnitSize]), m.Swap, m.Compare)
	PutUnit((*[UnitSize]byte)(dst[UnitSize:]), m.SwapMask, m.CompareMask)
}

// MaskedFA4 holds the operands of a masked fetch-and-add of 4 bytes. Each set bit of
// Boundary is the top bit of a bit field. A carry never goes from one bit field into
// the next.
type MaskedFA4 struct {
	Add, Boundary uint32
	Rsvd          uint64
}

// ParseMaskedFA4 reads the operands.
func ParseMaskedFA4(src *[MaskedFA4Size]byte) MaskedFA4 {
	be := binary.BigEndian
	return MaskedFA4{be.Uint32(src[0:4]), be.Uint32(src[4:8]), be.Uint64(src[8:16])}
}

// Put writes the operands.
func (m MaskedFA4) Put(dst *[MaskedFA4Size]byte) {
	PutUnit(dst, uint64(m.Add)<<32|uint64(m.Boundary), m.Rsvd)
}

// MaskedFA8 is MaskedFA4 for 8 bytes.
type MaskedFA8 struct{ Add, Boundary uint64 }

// ParseMaskedFA8 reads the operands.
func ParseMaskedFA8(src *[MaskedFA8Size]byte) MaskedFA8 {
	be := binary.BigEndian
	return MaskedFA8{be.Uint64(src[0:8]), be.Uint64(src[8:16])}
}

// Put writes the operands.
func (m MaskedFA8) Put(dst *[MaskedFA8Size]byte) {
	PutUnit(dst, m.Add, m.Boundary)
}
