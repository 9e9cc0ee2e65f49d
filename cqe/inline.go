package cqe

import "encoding/binary"

// Bytes of a message that an entry can carry ("scatter to CQE"), by format.
const (
	MaxInline32 = 32 // FormatInline32: in bytes 0..31 of the entry, over the fields there
	MaxInline64 = 64 // FormatInline64: in the first half of a 128-byte entry
)

// Halves splits a 128-byte entry: the first half, a GRH or inline data, and
// the second, which is laid out as a 64-byte entry. Both alias slot.
func Halves(slot *[Size128]byte) (first, entry *[Size]byte) {
	return (*[Size]byte)(slot[:Size]), (*[Size]byte)(slot[Size:])
}

// Inline returns the bytes of the message inside a 64-byte entry, aliasing it:
// none unless the format is [FormatInline32] and the entry is a success. ok is
// false if the entry claims more than [MaxInline32] bytes; data is then as long as
// the format allows.
func Inline(entry *[Size]byte) (data []byte, ok bool) {
	o := OpOwn(entry[OffOpOwn])
	if o.Format() != FormatInline32 || o.Opcode() > RespSendInv {
		return nil, true
	}
	n := binary.BigEndian.Uint32(entry[OffByteCount:])
	return entry[:min(n, MaxInline32)], n <= MaxInline32
}

// Inline128 is [Inline] for a 128-byte entry: format [FormatInline64] has its
// data in the first half, [FormatInline32] at the start of the second, as
// libmlx5 reads it.
func Inline128(slot *[Size128]byte) (data []byte, ok bool) {
	first, entry := Halves(slot)
	o := OpOwn(entry[OffOpOwn])
	if o.Format() != FormatInline64 || o.Opcode() > RespSendInv {
		return Inline(entry)
	}
	n := binary.BigEndian.Uint32(entry[OffByteCount:])
	return first[:min(n, MaxInline64)], n <= MaxInline64
}
