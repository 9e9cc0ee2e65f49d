package cqe

import "encoding/binary"

// PutReq writes the entry of a send WQE that succeeded, all 64 bytes. o has
// opcode [Req]; counter is the index of the WQE's first block; byteCount is the
// number of bytes that a READ or atomic returned, else 0.
func PutReq(dst *[Size]byte, qpn, uidx uint32, wqeOpcode uint8, counter uint16, byteCount uint32, timestamp uint64, o OpOwn) {
	PutBody(dst, 0, uidx, 0, byteCount, timestamp)
	putTail(dst, MakeTail(qpn, wqeOpcode, counter, 0, o))
}

// PutResp writes the entry of a receive that was consumed, all 64 bytes. o
// has one of the Resp opcodes and the solicited bit of the message; counter is
// the receive's index (for an SRQ, of the entry); flags is as [FlagsRQPN] packs
// it; imm the immediate's four bytes read big-endian, or the invalidated rkey.
func PutResp(dst *[Size]byte, qpn, uidx, flags, imm uint32, counter uint16, byteCount uint32, timestamp uint64, o OpOwn) {
	PutBody(dst, flags, uidx, imm, byteCount, timestamp)
	putTail(dst, MakeTail(qpn, 0, counter, 0, o))
}

// PutPath adds the sender of a UD receive: the source LID, and
// in the low 7 bits of mlPath the destination path bits. It follows [PutResp].
func PutPath(dst *[Size]byte, slid uint16, mlPath uint8) {
	dst[OffMLPath] = mlPath
	binary.BigEndian.PutUint16(dst[OffSLID:], slid)
}

// PutErr writes an error entry, all 64 bytes. o has opcode [ReqErr] or
// [RespErr]; wqeOpcode is 0 for a receive.
func PutErr(dst *[Size]byte, qpn, uidx uint32, wqeOpcode uint8, counter uint16, s Syndrome, vendor uint8, o OpOwn) {
	PutBody(dst, 0, uidx, 0, 0, ErrWord(s, vendor))
	putTail(dst, MakeTail(qpn, wqeOpcode, counter, 0, o))
}

func putTail(dst *[Size]byte, t Tail) { binary.BigEndian.PutUint64(dst[OffTail:], uint64(t)) }
