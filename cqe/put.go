package cqe

import "encoding/binary"

// PutReq writes the entry of a send WQE that succeeded, all 64 bytes. o has
// opcode [Req]; counter is the index of the WQE's first block; byteCount is
// what a READ or atomic returned, else 0.
func PutReq(dst *[Size]byte, qpn, uidx uint32, wqeOpcode uint8, counter uint16, byteCount uint32, timestamp uint64, o OpOwn) {
	be := binary.BigEndian
	*(*[32]byte)(dst[0:32]) = [32]byte{}
	be.PutUint64(dst[32:40], uint64(uidx)<<32)
	be.PutUint64(dst[40:48], uint64(byteCount))
	be.PutUint64(dst[48:56], timestamp)
	be.PutUint64(dst[56:64], Tail(qpn, wqeOpcode, counter, 0, o))
}

// PutResp writes the entry of a receive that was consumed, all 64 bytes. o
// has one of the Resp opcodes and the solicited bit of the message; counter is
// the receive's index (for an SRQ, of the entry); flags is as [FlagsRQPN] packs
// it; imm the immediate's four bytes read big-endian, or the invalidated rkey.
func PutResp(dst *[Size]byte, qpn, uidx, flags, imm uint32, counter uint16, byteCount uint32, timestamp uint64, o OpOwn) {
	be := binary.BigEndian
	*(*[24]byte)(dst[0:24]) = [24]byte{}
	be.PutUint64(dst[24:32], uint64(flags)<<32)
	be.PutUint64(dst[32:40], uint64(uidx)<<32|uint64(imm))
	be.PutUint64(dst[40:48], uint64(byteCount))
	be.PutUint64(dst[48:56], timestamp)
	be.PutUint64(dst[56:64], Tail(qpn, 0, counter, 0, o))
}

// PutPath adds what a UD receive tells about its sender: the source LID, and
// in the low 7 bits of mlPath the destination path bits. It follows [PutResp].
func PutPath(dst *[Size]byte, slid uint16, mlPath uint8) {
	dst[17] = mlPath
	binary.BigEndian.PutUint16(dst[22:24], slid)
}

// PutErr writes an error entry, all 64 bytes. o has opcode [ReqErr] or
// [RespErr]; wqeOpcode is 0 for a receive.
func PutErr(dst *[Size]byte, qpn, uidx uint32, wqeOpcode uint8, counter uint16, s Syndrome, vendor uint8, o OpOwn) {
	be := binary.BigEndian
	*(*[32]byte)(dst[0:32]) = [32]byte{}
	be.PutUint64(dst[32:40], uint64(uidx)<<32)
	be.PutUint64(dst[40:48], 0)
	be.PutUint64(dst[48:56], uint64(vendor)<<8|uint64(s))
	be.PutUint64(dst[56:64], Tail(qpn, wqeOpcode, counter, 0, o))
}
