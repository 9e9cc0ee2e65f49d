package wqe

import "encoding/binary"

// Sizes of the segments that change a key.
const (
	UMRCtrlSize     = 48
	MkeyContextSize = 64
	KLMSize         = 16
	RepeatBlockSize = 16
	RepeatEntrySize = 16
)

// Bits of UMRCtrl.Flags. The Linux kernel and rdma-core both name a bit CHECK_FREE, which asks that the
// key be free, but each names another bit: the kernel bit 6, rdma-core bit 5.
const (
	UMRInline            = 0x80 // the list is in the WQE
	UMRCheckBit6         = 0x40 // the key must be free: the bit of the Linux kernel
	UMRCheckFree         = 0x20 // the key must be free: the bit of rdma-core
	UMRTranslationOffset = 0x10 // TranslationOffset is valid
	UMRCheckQPN          = 0x08 // the key must belong to the QP that executes the UMR
)

// Bits of UMRCtrl.MkeyMask: the fields of the context that the UMR changes.
const (
	MaskLen         = 1 << 0
	MaskPageSize    = 1 << 1
	MaskStartAddr   = 1 << 6
	MaskPD          = 1 << 7
	MaskRemoteInval = 1 << 8
	MaskSigErrCount = 1 << 9
	MaskBSFEnable   = 1 << 12
	MaskMkey        = 1 << 13
	MaskQPN         = 1 << 14
	MaskLocalRead   = 1 << 17
	MaskLocalWrite  = 1 << 18
	MaskRemoteRead  = 1 << 19
	MaskRemoteWrite = 1 << 20
	MaskAtomic      = 1 << 21
	MaskSmallFence  = 1 << 23
	MaskFree        = 1 << 29
)

// UMRCtrl lists the changes of a user-mode registration (mlx5_wqe_umr_ctrl_seg).
type UMRCtrl struct {
	Flags             uint8
	Rsvd1             [3]byte
	KLMOctowords      uint16 // units of 16 bytes that the list takes, rounded up to a multiple of 4 units
	TranslationOffset uint16 // shares its bytes with bsf_octowords
	MkeyMask          uint64
	Rsvd16            [32]byte
}

// ParseUMRCtrl reads a UMR control segment.
func ParseUMRCtrl(src *[UMRCtrlSize]byte) UMRCtrl {
	be := binary.BigEndian
	return UMRCtrl{
		Flags: src[0], Rsvd1: [3]byte(src[1:4]),
		KLMOctowords: be.Uint16(src[4:6]), TranslationOffset: be.Uint16(src[6:8]),
		MkeyMask: be.Uint64(src[8:16]), Rsvd16: [32]byte(src[16:48]),
	}
}

// Put writes the UMR control segment.
func (u UMRCtrl) Put(dst *[UMRCtrlSize]byte) {
	be := binary.BigEndian
	dst[0] = u.Flags
	copy(dst[1:4], u.Rsvd1[:])
	be.PutUint16(dst[4:6], u.KLMOctowords)
	be.PutUint16(dst[6:8], u.TranslationOffset)
	be.PutUint64(dst[8:16], u.MkeyMask)
	copy(dst[16:48], u.Rsvd16[:])
}

// Bits of MkeyContext.
const (
	MkeyFree = 0x40 // in Free: the key is free after the UMR

	AccessLocalRead   = 0x04 // in Access, as are the bits up to AccessUMR
	AccessLocalWrite  = 0x08
	AccessRemoteRead  = 0x10
	AccessRemoteWrite = 0x20
	AccessAtomic      = 0x40
	AccessUMR         = 0x80

	MkeyLen64       = 1 << 31 // in FlagsPD, as are the two bits below; bits 23..0 are the PD
	MkeyBSFEnable   = 1 << 30
	MkeySigErrCount = 1 << 26
)

// An MkeyRight pairs an access right with its bit of MkeyContext.Access and with the
// bit of UMRCtrl.MkeyMask that changes the right.
type MkeyRight struct {
	Right  Right
	Access uint8
	Mask   uint64
}

// MkeyRights lists the rights that a user-mode registration can give or take away.
// Do not change it.
var MkeyRights = [...]MkeyRight{
	{RightLocalWrite, AccessLocalWrite, MaskLocalWrite},
	{RightRemoteWrite, AccessRemoteWrite, MaskRemoteWrite},
	{RightRemoteRead, AccessRemoteRead, MaskRemoteRead},
	{RightRemoteAtomic, AccessAtomic, MaskAtomic},
}

// MkeyContext is the state that the UMR gives the key (mlx5_wqe_mkey_context_seg). The UMR changes only
// the fields in UMRCtrl.MkeyMask.
type MkeyContext struct {
	Free                 uint8
	Rsvd1                uint8
	Access               uint8 // access_flags
	SF                   uint8
	QPNMkey              uint32 // QPN in bits 31..8, 0xffffff for any; new variant in 7..0
	Rsvd8                uint32
	FlagsPD              uint32
	StartAddr            uint64
	Len                  uint64
	BSFOctowords         uint32
	Rsvd36               [16]byte
	TranslationOctowords uint32
	Rsvd56               [3]byte
	LogPageSize          uint8
	Rsvd60               uint32
}

// ParseMkeyContext reads an mkey context segment.
func ParseMkeyContext(src *[MkeyContextSize]byte) MkeyContext {
	be := binary.BigEndian
	return MkeyContext{
		Free: src[0], Rsvd1: src[1], Access: src[2], SF: src[3],
		QPNMkey: be.Uint32(src[4:8]), Rsvd8: be.Uint32(src[8:12]), FlagsPD: be.Uint32(src[12:16]),
		StartAddr: be.Uint64(src[16:24]), Len: be.Uint64(src[24:32]),
		BSFOctowords: be.Uint32(src[32:36]), Rsvd36: [16]byte(src[36:52]),
		TranslationOctowords: be.Uint32(src[52:56]), Rsvd56: [3]byte(src[56:59]),
		LogPageSize: src[59], Rsvd60: be.Uint32(src[60:64]),
	}
}

// Put writes the mkey context segment.
func (m MkeyContext) Put(dst *[MkeyContextSize]byte) {
	be := binary.BigEndian
	dst[0], dst[1], dst[2], dst[3] = m.Free, m.Rsvd1, m.Access, m.SF
	be.PutUint32(dst[4:8], m.QPNMkey)
	be.PutUint32(dst[8:12], m.Rsvd8)
	be.PutUint32(dst[12:16], m.FlagsPD)
	be.PutUint64(dst[16:24], m.StartAddr)
	be.PutUint64(dst[24:32], m.Len)
	be.PutUint32(dst[32:36], m.BSFOctowords)
	copy(dst[36:52], m.Rsvd36[:])
	be.PutUint32(dst[52:56], m.TranslationOctowords)
	copy(dst[56:59], m.Rsvd56[:])
	dst[59] = m.LogPageSize
	be.PutUint32(dst[60:64], m.Rsvd60)
}

// KLM is one entry of the list of a key: a range of memory that is registered under the key MKey
// (mlx5_wqe_umr_klm_seg).
type KLM struct {
	ByteCount uint32
	MKey      uint32
	Addr      uint64
}

// ParseKLM reads a list entry.
func ParseKLM(src *[KLMSize]byte) KLM {
	be := binary.BigEndian
	return KLM{be.Uint32(src[0:4]), be.Uint32(src[4:8]), be.Uint64(src[8:16])}
}

// Put writes the list entry. A list can have many entries, so Put writes each with two stores; see
// [PutUnit].
func (k KLM) Put(dst *[KLMSize]byte) {
	PutUnit(dst, uint64(k.ByteCount)<<32|uint64(k.MKey), k.Addr)
}

// RepeatOp is the Op of a repeat block. Op is at the offset where a KLM has its key.
const RepeatOp = 0x400

// RepeatBlock says that the entries after it are interleaved: the list has the first repetition of each
// entry, then the second of each, and so on (mlx5_wqe_umr_repeat_block_seg).
// Each repetition of an entry begins one stride after the repetition before it.
type RepeatBlock struct {
	ByteCount   uint32 // bytes of one repetition of all entries together
	Op          uint32 // RepeatOp
	RepeatCount uint32
	Rsvd        uint16
	NumEntries  uint16
}

// ParseRepeatBlock reads a repeat block.
func ParseRepeatBlock(src *[RepeatBlockSize]byte) RepeatBlock {
	be := binary.BigEndian
	return RepeatBlock{
		be.Uint32(src[0:4]), be.Uint32(src[4:8]), be.Uint32(src[8:12]),
		be.Uint16(src[12:14]), be.Uint16(src[14:16]),
	}
}

// Put writes the repeat block.
func (r RepeatBlock) Put(dst *[RepeatBlockSize]byte) {
	be := binary.BigEndian
	be.PutUint32(dst[0:4], r.ByteCount)
	be.PutUint32(dst[4:8], r.Op)
	be.PutUint32(dst[8:12], r.RepeatCount)
	be.PutUint16(dst[12:14], r.Rsvd)
	be.PutUint16(dst[14:16], r.NumEntries)
}

// RepeatEntry is one entry under a repeat block (mlx5_wqe_umr_repeat_ent_seg).
type RepeatEntry struct {
	Stride    uint16
	ByteCount uint16
	MKey      uint32 // memkey
	Addr      uint64 // va
}

// ParseRepeatEntry reads a repeat entry.
func ParseRepeatEntry(src *[RepeatEntrySize]byte) RepeatEntry {
	be := binary.BigEndian
	return RepeatEntry{be.Uint16(src[0:2]), be.Uint16(src[2:4]), be.Uint32(src[4:8]), be.Uint64(src[8:16])}
}

// Put writes the repeat entry.
func (r RepeatEntry) Put(dst *[RepeatEntrySize]byte) {
	be := binary.BigEndian
	be.PutUint16(dst[0:2], r.Stride)
	be.PutUint16(dst[2:4], r.ByteCount)
	be.PutUint32(dst[4:8], r.MKey)
	be.PutUint64(dst[8:16], r.Addr)
}
