package cqe

import "encoding/binary"

// PutReq writes all 64 bytes of the entry of a send WQE that succeeded. o has opcode
// [Req]. counter is the index of the WQE's first block. byteCount is the number of
// bytes that a READ or atomic returned, and 0 for other WQEs.
func PutReq(
	dst *[Size]byte, qpn, uidx uint32, wqeOpcode uint8, counter uint16, byteCount uint32, timestamp uint64,
	o OpOwn,
) {
	PutBody(dst, 0, uidx, 0, byteCount, timestamp)
	putTail(dst, MakeTail(qpn, wqeOpcode, counter, 0, o))
}

// PutResp writes all 64 bytes of the entry of a receive that was consumed. o has one of
// the Resp opcodes and the solicited bit of the message. counter is the index of the
// receive, or for an SRQ the index of its entry. flags is a result of [FlagsRQPN]. imm
// is the immediate's four bytes read big-endian, or the invalidated rkey.
func PutResp(
	dst *[Size]byte, qpn, uidx, flags, imm uint32, counter uint16, byteCount uint32, timestamp uint64,
	o OpOwn,
) {
	PutBody(dst, flags, uidx, imm, byteCount, timestamp)
	putTail(dst, MakeTail(qpn, 0, counter, 0, o))
}

// PutPath adds the sender's path to the entry of a UD receive: the source LID, and in
// the low 7 bits of mlPath the destination path bits. Call it after [PutResp].
func PutPath(dst *[Size]byte, slid uint16, mlPath uint8) {
	dst[OffMLPath] = mlPath
	binary.BigEndian.PutUint16(dst[OffSLID:], slid)
}

// PutErr writes all 64 bytes of an error entry. o has opcode [ReqErr] or [RespErr].
// wqeOpcode is 0 for a receive.
func PutErr(
	dst *[Size]byte, qpn, uidx uint32, wqeOpcode uint8, counter uint16, s Syndrome, vendor uint8, o OpOwn,
) {
	PutBody(dst, 0, uidx, 0, 0, ErrWord(s, vendor))
	putTail(dst, MakeTail(qpn, wqeOpcode, counter, 0, o))
}

func putTail(dst *[Size]byte, t Tail) { binary.BigEndian.PutUint64(dst[OffTail:], uint64(t)) }
