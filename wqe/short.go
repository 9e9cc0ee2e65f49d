package wqe

// A short WQE is one block of a queue on a connected transport, with one data segment. A poster can
// change it while the device reads it. So the device reads it as big-endian words of 64 bits, each
// with one load, and decides by the words that it has loaded. The constants number the words:
//
//	word   WRITE, READ        SEND              atomic on 8 bytes
//	 0     OpWord             OpWord            OpWord
//	 1     FlagWord           FlagWord          FlagWord
//	 2     remote address     DataWord          remote address
//	 3     KeyWord            local address     KeyWord
//	 4     DataWord           -                 new value, or addend
//	 5     local address      -                 value to compare with
//	 6     -                  -                 DataWord
//	 7     -                  -                 local address
//
// Inline data come in place of a local address, after the byte count.
const (
	WordOp    = 0
	WordFlag  = 1
	WordRAddr = 2
	WordRKey  = 3

	WordMoveData  = 2 * UnitsBeforeMove
	WordMoveLAddr = WordMoveData + 1

	WordSendData  = 2 * UnitsBeforeSend
	WordSendLAddr = WordSendData + 1

	WordSwapAdd     = 4
	WordCompare     = 5
	WordAtomicData  = 2 * UnitsBeforeAtomic
	WordAtomicLAddr = WordAtomicData + 1
)

// The units of a short WQE before its data segment.
const (
	UnitsBeforeSend   = 1
	UnitsBeforeMove   = 2 // WRITE and READ
	UnitsBeforeAtomic = 3
)

// Where the bytes of a WQE with inline data begin, and how many have room in one block.
const (
	MoveInlineAt   = UnitsBeforeMove*UnitSize + InlineHead
	MoveInlineMost = BlockSize - MoveInlineAt
	SendInlineAt   = UnitsBeforeSend*UnitSize + InlineHead
	SendInlineMost = BlockSize - SendInlineAt
)

// An OpWord is the first word of a control segment:
//
//	opmod:8 index:16 opcode:8 qpn:24 reserved:2 ds:6
type OpWord uint64

const placeMask OpWord = 0xffff<<40 | 0xffffff<<8

// MakeOpWord returns the word of a WQE without a variant. qpn has 24 bits, ds 6.
func MakeOpWord(op Opcode, index uint16, qpn uint32, ds uint8) OpWord {
	return OpWord(index)<<40 | OpWord(op)<<32 | OpWord(qpn)<<8 | OpWord(ds)
}

// OpMod returns the variant of the opcode.
func (w OpWord) OpMod() uint8 { return uint8(w >> 56) }

// Index returns the number of the WQE's first block.
func (w OpWord) Index() uint16 { return uint16(w >> 40) }

// Opcode returns the operation.
func (w OpWord) Opcode() Opcode { return Opcode(w >> 32) }

// QPN returns the number of the queue pair.
func (w OpWord) QPN() uint32 { return uint32(w) >> 8 }

// DS returns the number of units.
func (w OpWord) DS() int { return int(w & MaxUnits) }

// Place returns the word with only the index and the QPN, as MakeOpWord(0, index, qpn, 0) does.
func (w OpWord) Place() OpWord { return w & placeMask }

// Next returns the word of the WQE in the next block. Its opmod is 0.
func (w OpWord) Next() OpWord { return (w + 1<<40) & (1<<56 - 1) }

// A FlagWord is the second word of a control segment:
//
//	signature:8 dci_stream_channel_id:16 fm_ce_se:8 imm:32
type FlagWord uint64

// MakeFlagWord returns the word of a WQE without a signature and a stream. flags is Ctrl.Flags.
func MakeFlagWord(flags uint8, imm uint32) FlagWord { return FlagWord(flags)<<32 | FlagWord(imm) }

// Sig returns the signature.
func (w FlagWord) Sig() uint8 { return uint8(w >> 56) }

// Stream returns the number of the stream.
func (w FlagWord) Stream() uint16 { return uint16(w >> 40) }

// Flags returns fm_ce_se.
func (w FlagWord) Flags() uint8 { return uint8(w >> 32) }

// CE returns the completion mode, in the bits of CEMask.
func (w FlagWord) CE() uint8 { return uint8(w>>32) & CEMask }

// Imm returns the immediate, rkey or mkey.
func (w FlagWord) Imm() uint32 { return uint32(w) }

// Plain reports whether the WQE requests no more than a completion: it has no fence, no other
// completion mode, is not solicited, and has no signature, stream or immediate.
func (w FlagWord) Plain() bool { return w&^MayDifferFlag == 0 }

// A KeyWord is the second word of a remote address segment:
//
//	rkey:32 reserved:32
type KeyWord uint64

// RKey returns the key of the remote memory.
func (w KeyWord) RKey() uint32 { return uint32(w >> 32) }

// A DataWord is the first word of a data segment, of a WQE or of a receive:
//
//	inline:1 byte_count:31 lkey:32
//
// If the data are inline, their first four bytes are in place of the key. Otherwise the local address
// comes after the word, at DataAddr.
type DataWord uint64

// DataAddr is the offset of the address in a data segment.
const DataAddr = 8

// MakeDataWord returns the word of a pointer to byteCount bytes. A byte count of 0 stands for MaxPointer.
func MakeDataWord(byteCount, lkey uint32) DataWord { return DataWord(byteCount)<<32 | DataWord(lkey) }

// Inline reports whether the segment holds its bytes instead of pointing at them.
func (w DataWord) Inline() bool { return w>>32&InlineFlag != 0 }

// ByteCount returns the byte count without the bit that says whether the data are inline.
func (w DataWord) ByteCount() uint64 { return uint64(w) >> 32 &^ InlineFlag }

// LKey returns the key of the local memory.
func (w DataWord) LKey() uint32 { return uint32(w) }

// AdmitShort reports whether a WQE has the form of a short WQE: it is one block, and its only data
// segment is a pointer, or inline data if the opcode takes them, of 1 to most bytes. d is the first word
// of the data segment. before is how many units come before it in WQEs of this opcode: one of the
// constants UnitsBefore. n is the number of bytes; d.Inline says of which kind they are.
//
// Only constants are assigned to ok. So a caller in which AdmitShort is inlined branches at once, and
// needs no register for ok.
func AdmitShort(w OpWord, d DataWord, before, most uint64) (n uint64, ok bool) {
	n = d.ByteCount()
	if n-1 < most {
		units := uint64(w & MaxUnits)
		if !d.Inline() {
			if units == before+1 {
				ok = true
			}
		} else if units <= blockUnits && units == before+(InlineHead+n+UnitSize-1)/UnitSize &&
			infos[uint8(w>>32)].Inline {
			ok = true
		}
	}
	return n, ok
}

// Consecutive short WQEs are a series if they differ only in their index, their addresses, and in these bits.
const (
	MayDifferFlag    FlagWord = CEAlways << 32 // whether the WQE requests a completion; all other bits are 0
	MayDifferKey     KeyWord  = 1<<32 - 1      // reserved; clients leave garbage there
	MayDifferPointer DataWord = 0              // nothing
	MayDifferInline  DataWord = 1<<32 - 1      // payload
)

// Unlike returns the bits in which a WQE is not the WQE of a series that is expected in its place: 0 if
// there are none. w, f and d are the words of the WQE. The first WQE has the word first in place of d,
// and same has the bits in which these two must not differ. The remote key is not compared.
func Unlike(w, expected OpWord, f FlagWord, d, first, same DataWord) uint64 {
	return uint64(w^expected) | uint64(f&^MayDifferFlag) | uint64((d^first)&same)
}
