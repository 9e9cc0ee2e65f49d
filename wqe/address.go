package wqe

import "encoding/binary"

// Sizes of the segments that say where a message goes.
const (
	AVSize        = 48
	CompactAVSize = 16
	XRCSize       = 16
	EthSize       = 16
)

// CompactAV is the first 16 bytes of an address vector. An address vector whose
// Ext is not set has no other bytes. It has no GID, so programs use it only on InfiniBand, within a subnet.
type CompactAV struct {
	Key    uint64 // DC: the access key; UD: the qkey, in the upper half (see UDKey)
	Ext    bool   // the other 32 bytes follow (MLX5_EXTENDED_UD_AV)
	Rsvd   uint8  // seven bits between Ext and DQP
	DQP    uint32 // 24 bits: destination QPN, or DCT number
	RateSL uint8  // stat_rate_sl: rate in bits 7..4, SL in 3..0 (RoCE: priority in 3..1)
	FLMLID uint8  // fl_mlid: force loopback in bit 7, source path in 6..0
	RLID   uint16 // remote LID; on RoCE: the UDP source port
}

// UDKey returns the Key of a UD address with this qkey.
func UDKey(qkey uint32) uint64 { return uint64(qkey) << 32 }

// QKey returns the qkey of a UD address.
func (a CompactAV) QKey() uint32 { return uint32(a.Key >> 32) }

// ParseCompactAV reads the first 16 bytes of an address vector.
func ParseCompactAV(src *[CompactAVSize]byte) CompactAV {
	be := binary.BigEndian
	w := be.Uint32(src[8:12])
	return CompactAV{
		Key: be.Uint64(src[0:8]), Ext: w>>31 != 0, Rsvd: uint8(w>>24) & 0x7f, DQP: w & 0xffffff,
		RateSL: src[12], FLMLID: src[13], RLID: be.Uint16(src[14:16]),
	}
}

// Put writes the first 16 bytes of an address vector.
func (a CompactAV) Put(dst *[CompactAVSize]byte) {
	be := binary.BigEndian
	w := uint32(a.Rsvd&0x7f)<<24 | a.DQP&0xffffff
	if a.Ext {
		w |= 1 << 31
	}
	be.PutUint64(dst[0:8], a.Key)
	be.PutUint32(dst[8:12], w)
	dst[12], dst[13] = a.RateSL, a.FLMLID
	be.PutUint16(dst[14:16], a.RLID)
}

// AV is the full address vector of a UD datagram or a DC message (mlx5_wqe_av).
type AV struct {
	CompactAV
	Rsvd16   uint32
	RMAC     [6]byte // remote MAC; RoCE only
	TClass   uint8
	HopLimit uint8
	GRH      uint32 // grh_gid_fl: GRH present in bit 30, source GID index in 27..20, flow label in 19..0
	RGID     [16]byte
}

// ParseAV reads an address vector.
func ParseAV(src *[AVSize]byte) AV {
	be := binary.BigEndian
	return AV{
		CompactAV: ParseCompactAV((*[CompactAVSize]byte)(src[:])),
		Rsvd16:    be.Uint32(src[16:20]), RMAC: [6]byte(src[20:26]), TClass: src[26], HopLimit: src[27],
		GRH: be.Uint32(src[28:32]), RGID: [16]byte(src[32:48]),
	}
}

// ReadAV reads an address vector of either form. If Ext is not set, the vector is the first 16 bytes alone,
// and the others belong to the next segment.
func ReadAV(src *[AVSize]byte) AV {
	a := ParseAV(src)
	if !a.Ext {
		return AV{CompactAV: a.CompactAV}
	}
	return a
}

// Put writes the address vector.
func (a AV) Put(dst *[AVSize]byte) {
	be := binary.BigEndian
	a.CompactAV.Put((*[CompactAVSize]byte)(dst[:]))
	be.PutUint32(dst[16:20], a.Rsvd16)
	copy(dst[20:26], a.RMAC[:])
	dst[26], dst[27] = a.TClass, a.HopLimit
	be.PutUint32(dst[28:32], a.GRH)
	copy(dst[32:48], a.RGID[:])
}

// XRC names the remote shared receive queue of an XRC message
// (mlx5_wqe_xrc_seg).
type XRC struct {
	SRQN uint32
	Rsvd [12]byte
}

// ParseXRC reads an XRC segment.
func ParseXRC(src *[XRCSize]byte) XRC {
	return XRC{binary.BigEndian.Uint32(src[0:4]), [12]byte(src[4:16])}
}

// Put writes the XRC segment.
func (x XRC) Put(dst *[XRCSize]byte) {
	binary.BigEndian.PutUint32(dst[0:4], x.SRQN)
	copy(dst[4:16], x.Rsvd[:])
}

// Bits of the Ethernet segment.
const (
	EthL3Csum      = 0x40    // in CSFlags (MLX5_ETH_WQE_L3_CSUM)
	EthL4Csum      = 0x80    // in CSFlags (MLX5_ETH_WQE_L4_CSUM)
	EthInnerL3Csum = 0x10    // in CSFlags, for a tunnelled packet
	EthInnerL4Csum = 0x20    // in CSFlags, for a tunnelled packet
	EthInsertVLAN  = 1 << 15 // in HdrSize: Hdr is a VLAN tag to insert, and no header follows
)

// Eth is the Ethernet segment of a raw packet (mlx5_wqe_eth_seg). It holds the
// first two bytes of the packet's inline header. The rest of the header follows
// the segment, padded to whole units.
type Eth struct {
	SWP      uint32 // software parser offsets
	CSFlags  uint8
	SWPFlags uint8
	MSS      uint16  // maximum segment size, for TSO
	Meta     uint32  // reserved, or flow metadata
	HdrSize  uint16  // inline_hdr_sz
	Hdr      [2]byte // inline_hdr_start
}

// ParseEth reads the first 16 bytes of an Ethernet segment.
func ParseEth(src *[EthSize]byte) Eth {
	be := binary.BigEndian
	return Eth{
		SWP: be.Uint32(src[0:4]), CSFlags: src[4], SWPFlags: src[5], MSS: be.Uint16(src[6:8]),
		Meta: be.Uint32(src[8:12]), HdrSize: be.Uint16(src[12:14]), Hdr: [2]byte(src[14:16]),
	}
}

// Put writes the first 16 bytes of the Ethernet segment.
func (e Eth) Put(dst *[EthSize]byte) {
	be := binary.BigEndian
	be.PutUint32(dst[0:4], e.SWP)
	dst[4], dst[5] = e.CSFlags, e.SWPFlags
	be.PutUint16(dst[6:8], e.MSS)
	be.PutUint32(dst[8:12], e.Meta)
	be.PutUint16(dst[12:14], e.HdrSize)
	dst[14], dst[15] = e.Hdr[0], e.Hdr[1]
}

// HeaderLen returns the length of the inline header in bytes, including the two in Hdr.
func (e Eth) HeaderLen() int {
	if e.HdrSize&EthInsertVLAN != 0 {
		return 0
	}
	return int(e.HdrSize)
}

// EthUnits returns how many units an Ethernet segment with an inline header of n
// bytes takes.
func EthUnits(n int) int { return 1 + (max(n, 2)-2+UnitSize-1)/UnitSize }
