package cqe

import "strconv"

// Opcode is the kind of an entry, bits 7..4 of op_own.
type Opcode uint8

// Opcodes of entries (MLX5_CQE_REQ and so on).
const (
	Req          Opcode = 0  // a send WQE succeeded
	RespWriteImm Opcode = 1  // an RDMA write with immediate consumed a receive
	RespSend     Opcode = 2  // a send arrived
	RespSendImm  Opcode = 3  // a send with immediate arrived
	RespSendInv  Opcode = 4  // a send arrived, and an rkey was invalidated
	ResizeCQ     Opcode = 5  // last entry of the old buffer
	NoPacket     Opcode = 6  // operation on a tag matching list
	SigErr       Opcode = 12 // reports a signature error of an mkey
	ReqErr       Opcode = 13 // a send WQE failed or was flushed
	RespErr      Opcode = 14 // a receive failed or was flushed
	Invalid      Opcode = 15 // no completion, whatever the owner bit is
)

var opcodeNames = [16]string{
	Req: "REQ", RespWriteImm: "RESP_WR_IMM", RespSend: "RESP_SEND", RespSendImm: "RESP_SEND_IMM",
	RespSendInv: "RESP_SEND_INV", ResizeCQ: "RESIZE_CQ", NoPacket: "NO_PACKET",
	SigErr: "SIG_ERR", ReqErr: "REQ_ERR", RespErr: "RESP_ERR", Invalid: "INVALID",
}

// String returns the vendor's name, or the number if the opcode has no name.
func (o Opcode) String() string {
	if s := opcodeNames[o&15]; s != "" && o < 16 {
		return s
	}
	return "opcode " + strconv.Itoa(int(o))
}

// IsError reports whether the entry is laid out as [ErrCQE].
func (o Opcode) IsError() bool { return o == ReqErr || o == RespErr }

// Format says what the other bytes of an entry hold. It is bits 3..2 of op_own.
type Format uint8

// Formats of entries.
const (
	FormatPlain      Format = 0
	FormatInline32   Format = 1 // a message of at most 32 bytes, in the entry itself
	FormatInline64   Format = 2 // a message of at most 64 bytes, in the first half of a 128-byte entry
	FormatCompressed Format = 3 // title of a compressed session
)

var formatNames = [4]string{"plain", "inline 32", "inline 64", "compressed"}

// String returns a short name.
func (f Format) String() string { return formatNames[f&3] }

// OpOwn is byte 63 of an entry (op_own): opcode, format, solicited and owner. Each part
// is read by its own bits, because in error entries devices set the low bits freely.
type OpOwn uint8

// SolicitedBit is set when the sender requested an event; see OpOwn.Solicited.
const SolicitedBit OpOwn = 1 << 1

// MakeOpOwn packs the byte. Only bit 0 of owner counts.
func MakeOpOwn(op Opcode, f Format, solicited bool, owner uint8) OpOwn {
	o := OpOwn(op)<<4 | OpOwn(f&3)<<2 | OpOwn(owner&1)
	if solicited {
		o |= SolicitedBit
	}
	return o
}

// Opcode returns bits 7..4.
func (o OpOwn) Opcode() Opcode { return Opcode(o >> 4) }

// Format returns bits 3..2.
func (o OpOwn) Format() Format { return Format(o >> 2 & 3) }

// Solicited reports bit 1: the sender requested an event.
func (o OpOwn) Solicited() bool { return o&SolicitedBit != 0 }

// PlainReq reports whether the entry reports the success of a send WQE, carries no data
// and is not compressed. Most entries of send queues are like this.
func (o OpOwn) PlainReq() bool { return o&^SolicitedBit <= 1 }

// PlainRespSend reports whether the entry reports that a send without immediate arrived,
// carries no data and is not compressed. Most entries of receive queues are like this.
func (o OpOwn) PlainRespSend() bool { return o&^(SolicitedBit|1) == OpOwn(RespSend)<<4 }

// Owner returns bit 0.
func (o OpOwn) Owner() uint8 { return uint8(o & 1) }

// Slot returns the slot of the entry whose number is index, in a ring of 1<<log entries.
// log is 0..31.
func Slot(index uint64, log uint) uint64 { return index & (1<<(log&63) - 1) }

// EntryOffset returns the offset, in the ring, of the 64-byte entry in a slot. Each slot
// has 1<<logSize bytes; logSize is 6 or 7. In a 128-byte slot the 64-byte entry is the
// second half.
func EntryOffset(slot uint64, logSize uint) uint64 {
	return (slot+1)<<(logSize&63) - Size
}

// Owner returns the owner bit of the entry whose number is index, in a ring of 1<<log
// entries. The bit is the parity of the entry's lap. log is 0..31; if log is 0, the bit
// toggles at every entry.
func Owner(index uint64, log uint) uint8 { return uint8(index>>(log&63)) & 1 }

// Valid reports whether the entry whose number is index has been written. o is the op_own
// read from that entry's slot. The entry has been written if the opcode is not [Invalid]
// and the owner bit is that of the entry's lap. Valid is right for every initial fill
// that a CPU or GPU library uses (0xf0, 0xf1, 0xff).
func Valid(o OpOwn, index uint64, log uint) bool {
	return o < 0xf0 && o.Owner() == Owner(index, log)
}

// Iteration returns the validity iteration count of the entry whose number is index, in a
// ring of 1<<log entries with the newer compression layout. The count is the low 8 bits of
// the entry's lap. In that layout the count is used in place of the signature and of the
// owner bit.
func Iteration(index uint64, log uint) uint8 { return uint8(index >> (log & 63)) }
