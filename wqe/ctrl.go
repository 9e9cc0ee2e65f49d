package wqe

import (
	"encoding/binary"
	"math/bits"
)

// Sizes in a send queue and its WQEs. MaxUnits and MaxBlocks are numbers of units and
// blocks; the other sizes are in bytes.
const (
	BlockSize = 64 // size of a block (MLX5_SEND_WQE_BB)
	UnitSize  = 16 // size of a unit; DS counts units
	CtrlSize  = 16 // size of the control segment
	MaxUnits  = 63 // the longest WQE, in units; DS has six bits
	MaxBlocks = 16 // the longest WQE, in blocks (MLX5_SEND_WQE_MAX_WQEBBS)
	MaxSize   = MaxUnits * UnitSize

	blockUnits = BlockSize / UnitSize
)

// The longest message in bytes, whatever its opcode. Ports of mlx5 devices have this
// limit (log_max_msg in the HCA capabilities, max_msg_sz in verbs), and so does the
// device of this project.
const (
	MaxMessageLog = 30
	MaxMessage    = 1 << MaxMessageLog
)

// Bits of Ctrl.Flags (fm_ce_se).
const (
	FlagSolicited = 0x02 // raise a solicited event at the receiver

	CEMask       = 0x0c // completion mode: when the WQE gets a CQE
	CEOnError    = 0x00 // only when the WQE fails or is flushed
	CEFirstError = 0x04 // only when the WQE is the first to fail
	CEAlways     = 0x08 // always (MLX5_WQE_CTRL_CQ_UPDATE)
	CEEvent      = 0x0c // always, and raise an event

	FenceMask   = 0xe0
	FenceNone   = 0x00
	FenceSmall  = 0x20 // wait for earlier changes of keys (MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE)
	FenceReads  = 0x40 // wait for earlier reads and atomics
	FenceStrong = 0x60 // wait for all earlier WQEs
	FenceVerbs  = 0x80 // both FenceSmall and FenceReads; IBV_SEND_FENCE sets it (MLX5_WQE_CTRL_FENCE)
)

// Ctrl is the control segment, the first unit of every send WQE
// (mlx5_wqe_ctrl_seg).
type Ctrl struct {
	OpMod  uint8  // variant of the opcode; ignored by opcodes without variants
	Index  uint16 // number of the WQE's first block, counted since the queue was made
	Opcode Opcode
	QPN    uint32 // 24 bits
	Rsvd   uint8  // two bits above DS
	DS     uint8  // units in the WQE, 1 to 63
	Sig    uint8  // signature, on queues made with one
	Stream uint16 // dci_stream_channel_id, on DCIs with streams
	Flags  uint8  // fm_ce_se: fence, completion mode, solicited
	Imm    uint32 // immediate, rkey or mkey; see Info.Imm
}

// ParseCtrl reads a control segment.
func ParseCtrl(src *[CtrlSize]byte) (c Ctrl) {
	c.parse(src)
	return c
}

// parse is ParseCtrl in place. A Ctrl has too many fields for registers, and
// copying a Ctrl right after its fields were stored one by one stalls the processor.
func (c *Ctrl) parse(src *[CtrlSize]byte) {
	lo, hi := binary.BigEndian.Uint64(src[0:8]), binary.BigEndian.Uint64(src[8:16])
	c.OpMod, c.Index, c.Opcode = uint8(lo>>56), uint16(lo>>40), Opcode(lo>>32)
	c.QPN, c.Rsvd, c.DS = uint32(lo)>>8, uint8(lo)>>6, uint8(lo)&MaxUnits
	c.Sig, c.Stream, c.Flags, c.Imm = uint8(hi>>56), uint16(hi>>40), uint8(hi>>32), uint32(hi)
}

// Put writes the control segment as two big-endian words of 64 bits,
//
//	opmod:8 index:16 opcode:8 qpn:24 reserved:2 ds:6
//	signature:8 dci_stream_channel_id:16 fm_ce_se:8 imm:32
//
// Bits of QPN, Rsvd and DS beyond their width are dropped.
func (c Ctrl) Put(dst *[CtrlSize]byte) {
	PutUnit(dst, uint64(c.OpMod)<<56|uint64(c.Index)<<40|uint64(c.Opcode)<<32|
		uint64(c.QPN<<8)|uint64(c.Rsvd<<6|c.DS&MaxUnits),
		uint64(c.Sig)<<56|uint64(c.Stream)<<40|uint64(c.Flags)<<32|uint64(c.Imm))
}

// PutUnit writes a unit as two big-endian words of 64 bits, each with one store.
// binary.BigEndian.PutUint64 is not used for this: if the compiler knows that some bytes of
// the word are 0, it turns PutUint64 into one store for each of the other bytes. Stores are
// what limits the rate of posting.
func PutUnit(dst *[UnitSize]byte, first, second uint64) {
	binary.LittleEndian.PutUint64(dst[0:8], bits.ReverseBytes64(first))
	binary.LittleEndian.PutUint64(dst[8:16], bits.ReverseBytes64(second))
}

// Blocks returns how many blocks the WQE takes in its queue.
func (c Ctrl) Blocks() int { return (int(c.DS) + blockUnits - 1) / blockUnits }

// Fence returns the fence mode, bits 7..5 of the flags. Modes above 4 have no
// documented meaning; a device treats them as 4.
func (c Ctrl) Fence() uint8 { return c.Flags >> 5 }

// Completion returns the completion mode, bits 3..2 of the flags.
func (c Ctrl) Completion() uint8 { return c.Flags & CEMask >> 2 }

// Solicited returns the solicited bit of the flags, 0 or 1.
func (c Ctrl) Solicited() uint8 { return c.Flags & FlagSolicited >> 1 }

// OperandSize returns how many bytes an atomic works on, 4 or 8. It returns 0 if
// the opcode is not an atomic or if OpMod has a size that has no layout.
func (c Ctrl) OperandSize() int {
	switch c.Opcode {
	case OpAtomicCS, OpAtomicFA:
		return 8
	case OpAtomicMaskedCS, OpAtomicMaskedFA:
		switch c.OpMod { // 8 | log2(size) - 2
		case OpMod4:
			return 4
		case OpMod8, 0:
			return 8
		}
	}
	return 0
}

// Values of Ctrl.OpMod that have a meaning.
const (
	OpMod4        = 0x08 // masked atomic on 4 bytes
	OpMod8        = 0x09 // masked atomic on 8 bytes; 0 means the same
	OpModWaitCQ   = 0    // WAIT until a CQ reaches an index
	OpModWaitData = 1    // WAIT on a value in memory
	OpModWaitTime = 2    // WAIT for a time
	OpModMMODMA   = 1    // MMO that copies local memory
)

// sigOffset is the offset of the signature byte in a WQE.
const sigOffset = 8

// Sign returns the signature of a WQE. The signature is the complement of the XOR of
// all bytes of the WQE, where the signature byte counts as 0. wqe is the whole WQE:
// DS·16 bytes, beginning with the control segment.
func Sign(wqe []byte) uint8 {
	var x uint8
	for _, b := range wqe {
		x ^= b
	}
	if len(wqe) > sigOffset {
		x ^= wqe[sigOffset]
	}
	return ^x
}
