package cqe

import (
	"encoding/binary"
	"math/bits"
)

// Offsets in a 64-byte entry. All fields are big-endian.
const (
	OffMLPath    = 17 // low 7 bits: destination path bits
	OffSLID      = 22 // be16 source LID
	OffFlagsRQPN = 24 // be32 GRH, SL and source QPN: see the function FlagsRQPN
	OffUIdx      = 32 // be32 srqn_uidx: bits 23..0
	OffImm       = 36 // be32 imm_inval_pkey
	OffByteCount = 44 // be32 byte_cnt
	OffTimestamp = 48 // be64 timestamp; not in an error entry
	OffVendor    = 54 // vendor_err_synd, in an error entry only
	OffSyndrome  = 55 // syndrome, in an error entry only
	OffTail      = 56 // the last eight bytes, which are published together: see Tail
	OffQPN       = 56 // be32 sop_drop_qpn: opcode of the send WQE, QPN
	OffCounter   = 60 // be16 wqe_counter
	OffSignature = 62 // signature, or validity iteration count
	OffOpOwn     = 63 // op_own
)

// Indices of the 8-byte words that a poller loads as a whole.
const (
	WordPath      = OffMLPath / 8 // path bits and source LID
	WordFlags     = OffFlagsRQPN / 8
	WordUIdx      = OffUIdx / 8      // see UIdx
	WordByteCount = OffByteCount / 8 // its low half is byte_cnt
	WordTimestamp = OffTimestamp / 8
)

// UIdx returns the user index from the word [WordUIdx].
func UIdx(word uint64) uint32 { return uint32(word>>32) & Mask24 }

// A Tail is the last eight bytes of an entry as one big-endian number. A device
// writes the other bytes first and then stores the tail with release semantics.
//
//	WQE opcode:8 QPN:24 wqe_counter:16 signature:8 op_own:8
type Tail uint64

// MakeTail packs a tail. QPN is cut to 24 bits.
func MakeTail(qpn uint32, wqeOpcode uint8, counter uint16, signature uint8, o OpOwn) Tail {
	return Tail(wqeOpcode)<<56 | Tail(qpn&Mask24)<<32 | Tail(counter)<<16 | Tail(signature)<<8 | Tail(o)
}

// WQEOpcode returns the opcode of the send WQE, 0 at the responder.
func (t Tail) WQEOpcode() uint8 { return uint8(t >> 56) }

// QPN returns the 24-bit number of the queue pair.
func (t Tail) QPN() uint32 { return uint32(t>>32) & Mask24 }

// Counter returns wqe_counter.
func (t Tail) Counter() uint16 { return uint16(t >> 16) }

// OpOwn returns the last byte.
func (t Tail) OpOwn() OpOwn { return OpOwn(t) }

// Later returns t with a wqe_counter that is n greater; wqe_counter has 16 bits.
func (t Tail) Later(n int) Tail {
	return t&^(0xffff<<16) | Tail(t.Counter()+uint16(n))<<16
}

// Owned returns t with the owner bit of the entry whose number is index, in a ring of
// 1<<log entries. The owner bit of t itself must be 0.
func (t Tail) Owned(index uint64, log uint) Tail { return t | Tail(Owner(index, log)) }

// PutBody writes bytes 0..55 of an entry, which is everything before the tail. flags is
// a result of [FlagsRQPN]; uidx is the user index; imm is the immediate's four bytes
// read big-endian, or the invalidated rkey. time is the timestamp; for an error entry it
// is a result of [ErrWord].
func PutBody(dst *[Size]byte, flags, uidx, imm, byteCount uint32, time uint64) {
	*(*[24]byte)(dst[:24]) = [24]byte{}
	putWord(dst[24:32], uint64(flags)<<32)
	putWord(dst[32:40], uint64(uidx)<<32|uint64(imm))
	putWord(dst[40:48], uint64(byteCount))
	putWord(dst[48:56], time)
}

// PutSLID writes the source LID of an entry, after PutBody.
func PutSLID(dst *[Size]byte, slid uint16) { binary.BigEndian.PutUint16(dst[22:24], slid) }

// putWord writes v big-endian with one store. binary.BigEndian.PutUint64 is not used here:
// if the compiler knows that some bytes of v are 0, it turns PutUint64 into one store for
// each of the other bytes.
func putWord(dst []byte, v uint64) {
	binary.LittleEndian.PutUint64(dst, bits.ReverseBytes64(v))
}

// ErrWord returns bytes 48..55 of an error entry as a big-endian number.
func ErrWord(s Syndrome, vendor uint8) uint64 { return uint64(vendor)<<8 | uint64(s) }
