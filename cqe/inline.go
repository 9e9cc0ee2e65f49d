package cqe

import "encoding/binary"

// The largest number of message bytes that an entry can carry ("scatter to CQE"), for each
// format.
const (
	MaxInline32 = 32 // FormatInline32: in bytes 0..31 of the entry, in place of the fields there
	MaxInline64 = 64 // FormatInline64: in the first half of a 128-byte entry
)

// Halves splits a 128-byte entry. The first half holds a GRH or inline data; the
// second half is laid out as a 64-byte entry. Both results alias slot.
func Halves(slot *[Size128]byte) (first, entry *[Size]byte) {
	return (*[Size]byte)(slot[:Size]), (*[Size]byte)(slot[Size:])
}

// Inline returns the bytes of the message inside a 64-byte entry. data aliases the
// entry; it is empty unless the format is [FormatInline32] and the entry reports success.
// ok is false if byte_cnt is more than [MaxInline32]; data is then [MaxInline32] bytes.
func Inline(entry *[Size]byte) (data []byte, ok bool) {
	o := OpOwn(entry[OffOpOwn])
	if o.Format() != FormatInline32 || o.Opcode() > RespSendInv {
		return nil, true
	}
	n := binary.BigEndian.Uint32(entry[OffByteCount:])
	return entry[:min(n, MaxInline32)], n <= MaxInline32
}

// Inline128 is [Inline] for a 128-byte entry, and finds the data where libmlx5 does.
// The data of format [FormatInline64] is in the first half. The data of format
// [FormatInline32] is at the start of the second half.
func Inline128(slot *[Size128]byte) (data []byte, ok bool) {
	first, entry := Halves(slot)
	o := OpOwn(entry[OffOpOwn])
	if o.Format() != FormatInline64 || o.Opcode() > RespSendInv {
		return Inline(entry)
	}
	n := binary.BigEndian.Uint32(entry[OffByteCount:])
	return first[:min(n, MaxInline64)], n <= MaxInline64
}
