package wqe

import "encoding/binary"

// SRQNextSize is the size of the segment before the list of an SRQ entry.
const SRQNextSize = 16

// SRQNext links the entries of a shared receive queue (mlx5_wqe_srq_next_seg).
// Entries are used in the order of the links, not in the order of their indices.
type SRQNext struct {
	Rsvd0 uint16
	Next  uint16 // next_wqe_index
	Sig   uint8
	Rsvd5 [11]byte
}

// ParseSRQNext reads the link of an SRQ entry.
func ParseSRQNext(src *[SRQNextSize]byte) SRQNext {
	be := binary.BigEndian
	return SRQNext{be.Uint16(src[0:2]), be.Uint16(src[2:4]), src[4], [11]byte(src[5:16])}
}

// Put writes the link of an SRQ entry.
func (s SRQNext) Put(dst *[SRQNextSize]byte) {
	be := binary.BigEndian
	be.PutUint16(dst[0:2], s.Rsvd0)
	be.PutUint16(dst[2:4], s.Next)
	dst[4] = s.Sig
	copy(dst[5:16], s.Rsvd5[:])
}

// PutRecv writes the scatter list of a receive entry. dst is the room for the list:
// a whole entry of an RQ, or the part of an SRQ entry after SRQNext. If the list does not
// fill dst, PutRecv appends the terminator {0, KeyEnd, 0} and does not change the
// bytes after it. If the list does not fit, PutRecv writes nothing and returns false.
func PutRecv(dst []byte, sges []Data) bool {
	if len(sges) > len(dst)/DataSize {
		return false
	}
	for _, d := range sges {
		d.Put((*[DataSize]byte)(dst))
		dst = dst[DataSize:]
	}
	if len(dst) >= DataSize {
		Data{LKey: KeyEnd}.Put((*[DataSize]byte)(dst))
	}
	return true
}

// A RecvList iterates over the scatter list of a receive entry. The list ends at the
// terminator or at the end of the stride. Set a RecvList to the bytes of the list in
// a private copy of the entry.
type RecvList []byte

// Next returns the next pointer of the list, or false at the end of the list. A
// pointer may have InlineFlag set; the flag has no meaning in a receive list.
func (l *RecvList) Next() (Data, bool) {
	if len(*l) < DataSize {
		return Data{}, false
	}
	d := ParseData((*[DataSize]byte)(*l))
	if d.End() {
		*l = nil
		return Data{}, false
	}
	*l = (*l)[DataSize:]
	return d, true
}
