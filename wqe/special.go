package wqe

import "encoding/binary"

// Sizes of the segments that belong to one opcode each.
const (
	WaitSize        = 16
	WaitDataSize    = 32
	SetPSVSize      = 16
	MMOMetaSize     = 16
	TagMatchingSize = 32
)

// Wait is the operand of WAIT and of SEND_EN. For WAIT it names a CQ and the index of the completion that
// the CQ must have had, counted from 0 on. For SEND_EN it names a send queue and the producer
// counter up to which the queue may execute.
type Wait struct {
	Rsvd   uint64
	Index  uint32 // max_index
	Number uint32 // qpn_cqn
}

// ParseWait reads a WAIT or SEND_EN segment.
func ParseWait(src *[WaitSize]byte) Wait {
	be := binary.BigEndian
	return Wait{be.Uint64(src[0:8]), be.Uint32(src[8:12]), be.Uint32(src[12:16])}
}

// Put writes the WAIT or SEND_EN segment.
func (w Wait) Put(dst *[WaitSize]byte) {
	PutUnit(dst, w.Rsvd, uint64(w.Index)<<32|uint64(w.Number))
}

// WaitData is the operand of WAIT on data in memory or on time.
type WaitData struct {
	// Values 0 to 5 of bits 3..0 of Op: always, equal, bigger, smaller, cyclic bigger, cyclic smaller. Bit 4
	// inverts the result.
	Op uint32

	LKey  uint32
	Addr  uint64
	Value uint64
	Mask  uint64
}

// ParseWaitData reads the segment.
func ParseWaitData(src *[WaitDataSize]byte) WaitData {
	be := binary.BigEndian
	return WaitData{
		be.Uint32(src[0:4]), be.Uint32(src[4:8]),
		be.Uint64(src[8:16]), be.Uint64(src[16:24]), be.Uint64(src[24:32]),
	}
}

// Put writes the segment.
func (w WaitData) Put(dst *[WaitDataSize]byte) {
	be := binary.BigEndian
	be.PutUint32(dst[0:4], w.Op)
	be.PutUint32(dst[4:8], w.LKey)
	be.PutUint64(dst[8:16], w.Addr)
	be.PutUint64(dst[16:24], w.Value)
	be.PutUint64(dst[24:32], w.Mask)
}

// SetPSV sets a protection signature value (mlx5_wqe_set_psv_seg).
type SetPSV struct {
	Index     uint32 // psv_index
	Syndrome  uint16
	Rsvd      uint16
	Signature uint64 // transient_signature
}

// ParseSetPSV reads a SET_PSV segment.
func ParseSetPSV(src *[SetPSVSize]byte) SetPSV {
	be := binary.BigEndian
	return SetPSV{be.Uint32(src[0:4]), be.Uint16(src[4:6]), be.Uint16(src[6:8]), be.Uint64(src[8:16])}
}

// Put writes the SET_PSV segment.
func (s SetPSV) Put(dst *[SetPSVSize]byte) {
	be := binary.BigEndian
	be.PutUint32(dst[0:4], s.Index)
	be.PutUint16(dst[4:6], s.Syndrome)
	be.PutUint16(dst[6:8], s.Rsvd)
	be.PutUint64(dst[8:16], s.Signature)
}

// MMOMeta is the first segment of an MMO (mlx5_mmo_metadata_seg). In a DMA copy
// the source and destination follow as data segments.
type MMOMeta struct {
	Control uint32
	LKey    uint32 // key of the opaque area
	Addr    uint64
}

// ParseMMOMeta reads the segment.
func ParseMMOMeta(src *[MMOMetaSize]byte) MMOMeta {
	be := binary.BigEndian
	return MMOMeta{be.Uint32(src[0:4]), be.Uint32(src[4:8]), be.Uint64(src[8:16])}
}

// Put writes the segment.
func (m MMOMeta) Put(dst *[MMOMetaSize]byte) {
	PutUnit(dst, uint64(m.Control)<<32|uint64(m.LKey), m.Addr)
}

// Operations of a tag-matching segment.
const (
	TagNop    = 0
	TagAppend = 1
	TagRemove = 2
)

// TagMatching changes the list of expected tags of a shared receive queue
// (mlx5_wqe_tm_seg).
type TagMatching struct {
	Op      uint8 // four bits
	Rsvd0   uint8 // the four bits below Op
	Flags   uint8 // bit 7: CQE wanted; bit 6: SWCount valid
	Index   uint16
	Rsvd4   uint16
	SWCount uint16
	Rsvd8   uint64
	Tag     uint64
	Mask    uint64
}

// ParseTagMatching reads the segment.
func ParseTagMatching(src *[TagMatchingSize]byte) TagMatching {
	be := binary.BigEndian
	return TagMatching{
		Op: src[0] >> 4, Rsvd0: src[0] & 0x0f, Flags: src[1],
		Index: be.Uint16(src[2:4]), Rsvd4: be.Uint16(src[4:6]), SWCount: be.Uint16(src[6:8]),
		Rsvd8: be.Uint64(src[8:16]), Tag: be.Uint64(src[16:24]), Mask: be.Uint64(src[24:32]),
	}
}

// Put writes the segment.
func (t TagMatching) Put(dst *[TagMatchingSize]byte) {
	be := binary.BigEndian
	dst[0], dst[1] = t.Op<<4|t.Rsvd0&0x0f, t.Flags
	be.PutUint16(dst[2:4], t.Index)
	be.PutUint16(dst[4:6], t.Rsvd4)
	be.PutUint16(dst[6:8], t.SWCount)
	be.PutUint64(dst[8:16], t.Rsvd8)
	be.PutUint64(dst[16:24], t.Tag)
	be.PutUint64(dst[24:32], t.Mask)
}
