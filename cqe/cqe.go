package cqe

import "encoding/binary"

// Sizes of a completion queue entry in bytes (cqe_sz 0 and 1 in the CQ context).
const (
	Size    = 64
	Size128 = 128
)

// Mask24 cuts QPNs, SRQ numbers and user indices to 24 bits, their width in an entry.
const Mask24 = 1<<24 - 1

// CQE is a 64-byte entry (struct mlx5_cqe64); see [ErrCQE] for error entries. Every
// bit belongs to a field, so ParseCQE then Put is the identity, for error entries too.
// The number in each comment is the offset in the entry.
type CQE struct {
	TunnelFlags uint8    // 0; the fields up to RSSType are for Ethernet only
	PacketInfo  uint8    // 1; reserved in the vendor's header
	WQEID       uint16   // 2; used by striding receive queues
	LRO         [8]byte  // 4
	RSSHash     uint32   // 12
	RSSType     uint8    // 16
	MLPath      uint8    // 17; low 7 bits are destination path bits
	Rsvd18      [2]uint8 // 18
	Checksum    uint16   // 20
	SLID        uint16   // 22; source LID
	FlagsRQPN   uint32   // 24; GRH, SL and source QPN, see the function FlagsRQPN
	HDSIPExt    uint8    // 28; bit 0 L2 ok, 1 L3 ok, 2 L4 ok
	L4HdrType   uint8    // 29; 6..4 L4 type, 3..2 L3 type, 0 VLAN
	VLAN        uint16   // 30
	SRQNUIdx    uint32   // 32; bits 23..0
	Imm         uint32   // 36; imm_inval_pkey, its four bytes read big-endian
	App         uint8    // 40; 1 = tag matching
	AppOp       uint8    // 41
	AppInfo     uint16   // 42
	ByteCount   uint32   // 44
	Timestamp   uint64   // 48; ticks of the device clock
	WQEOpcode   uint8    // 56; opcode of the send WQE, 0 at the responder
	QPN         uint32   // 57; 24 bits
	Counter     uint16   // 60; wqe_counter: first block of the send WQE, or index of the receive
	Signature   uint8    // 62
	OpOwn       OpOwn    // 63
}

// ParseCQE reads an entry.
func ParseCQE(src *[Size]byte) CQE {
	be := binary.BigEndian
	qpn := be.Uint32(src[56:60])
	return CQE{
		TunnelFlags: src[0],
		PacketInfo:  src[1],
		WQEID:       be.Uint16(src[2:4]),
		LRO:         [8]byte(src[4:12]),
		RSSHash:     be.Uint32(src[12:16]),
		RSSType:     src[16],
		MLPath:      src[17],
		Rsvd18:      [2]byte(src[18:20]),
		Checksum:    be.Uint16(src[20:22]),
		SLID:        be.Uint16(src[22:24]),
		FlagsRQPN:   be.Uint32(src[24:28]),
		HDSIPExt:    src[28],
		L4HdrType:   src[29],
		VLAN:        be.Uint16(src[30:32]),
		SRQNUIdx:    be.Uint32(src[32:36]),
		Imm:         be.Uint32(src[36:40]),
		App:         src[40],
		AppOp:       src[41],
		AppInfo:     be.Uint16(src[42:44]),
		ByteCount:   be.Uint32(src[44:48]),
		Timestamp:   be.Uint64(src[48:56]),
		WQEOpcode:   uint8(qpn >> 24),
		QPN:         qpn & Mask24,
		Counter:     be.Uint16(src[60:62]),
		Signature:   src[62],
		OpOwn:       OpOwn(src[63]),
	}
}

// Put writes the entry, all 64 bytes of it. QPN is cut to 24 bits.
func (c *CQE) Put(dst *[Size]byte) {
	be := binary.BigEndian
	dst[0], dst[1] = c.TunnelFlags, c.PacketInfo
	be.PutUint16(dst[2:4], c.WQEID)
	*(*[8]byte)(dst[4:12]) = c.LRO
	be.PutUint32(dst[12:16], c.RSSHash)
	dst[16], dst[17] = c.RSSType, c.MLPath
	*(*[2]byte)(dst[18:20]) = c.Rsvd18
	be.PutUint16(dst[20:22], c.Checksum)
	be.PutUint16(dst[22:24], c.SLID)
	be.PutUint32(dst[24:28], c.FlagsRQPN)
	dst[28], dst[29] = c.HDSIPExt, c.L4HdrType
	be.PutUint16(dst[30:32], c.VLAN)
	be.PutUint32(dst[32:36], c.SRQNUIdx)
	be.PutUint32(dst[36:40], c.Imm)
	dst[40], dst[41] = c.App, c.AppOp
	be.PutUint16(dst[42:44], c.AppInfo)
	be.PutUint32(dst[44:48], c.ByteCount)
	be.PutUint64(dst[48:56], c.Timestamp)
	be.PutUint64(dst[56:64], uint64(MakeTail(c.QPN, c.WQEOpcode, c.Counter, c.Signature, c.OpOwn)))
}

// ErrCQE is a 64-byte error entry (struct mlx5_err_cqe). Its opcode is [ReqErr] or
// [RespErr]. ParseErrCQE then Put is the identity. The number in each comment is the
// offset in the entry.
type ErrCQE struct {
	Rsvd0      [32]byte // 0
	SRQNUIdx   uint32   // 32; bits 23..0
	Rsvd36     [16]byte // 36
	HWSyndrome uint8    // 52; hw_err_synd
	HWType     uint8    // 53; hw_synd_type
	Vendor     uint8    // 54; vendor_err_synd
	Syndrome   Syndrome // 55
	WQEOpcode  uint8    // 56; opcode of the send WQE, 0 at the responder
	QPN        uint32   // 57; 24 bits
	Counter    uint16   // 60; wqe_counter
	Signature  uint8    // 62
	OpOwn      OpOwn    // 63
}

// ParseErrCQE reads an error entry.
func ParseErrCQE(src *[Size]byte) ErrCQE {
	be := binary.BigEndian
	qpn := be.Uint32(src[56:60])
	return ErrCQE{
		Rsvd0:      [32]byte(src[0:32]),
		SRQNUIdx:   be.Uint32(src[32:36]),
		Rsvd36:     [16]byte(src[36:52]),
		HWSyndrome: src[52],
		HWType:     src[53],
		Vendor:     src[54],
		Syndrome:   Syndrome(src[55]),
		WQEOpcode:  uint8(qpn >> 24),
		QPN:        qpn & Mask24,
		Counter:    be.Uint16(src[60:62]),
		Signature:  src[62],
		OpOwn:      OpOwn(src[63]),
	}
}

// Put writes the entry, all 64 bytes of it. QPN is cut to 24 bits.
func (e *ErrCQE) Put(dst *[Size]byte) {
	be := binary.BigEndian
	*(*[32]byte)(dst[0:32]) = e.Rsvd0
	be.PutUint32(dst[32:36], e.SRQNUIdx)
	*(*[16]byte)(dst[36:52]) = e.Rsvd36
	dst[52], dst[53], dst[54], dst[55] = e.HWSyndrome, e.HWType, e.Vendor, uint8(e.Syndrome)
	be.PutUint64(dst[56:64], uint64(MakeTail(e.QPN, e.WQEOpcode, e.Counter, e.Signature, e.OpOwn)))
}

// Bits of FlagsRQPN. A poller reports a GRH if either of the two is set.
const (
	GRHInBuffer = 1 << 28 // the GRH fills the first 40 bytes of the receive list
	GRHInCQE    = 2 << 28 // the GRH is in the first half of a 128-byte entry
	grhMask     = 3 << 28
)

// FlagsRQPN packs the word at offset 24. grh is 0, [GRHInBuffer] or [GRHInCQE]; sl is
// the service level, 0..15; srcQP is the sender's 24-bit QPN.
func FlagsRQPN(grh uint32, sl uint8, srcQP uint32) uint32 {
	return grh&grhMask | uint32(sl&0xf)<<24 | srcQP&Mask24
}
