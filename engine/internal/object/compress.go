//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
)

func NewSession(format uint8) *Session {
	s := new(Session)
	if format == control.MiniChecksumStride {
		s.Indices = 0xffff
	}
	return s
}

// Mini returns the mini of a completion as a big-endian number. The mini of a send WQE is
// wqe_counter:16 opcode:8 0:8 byte_cnt:32. The first word of a receive's mini is a hash, a
// checksum, or checksum:16 stride:16. This device has neither hashes nor checksums. The stride
// index takes the place of wqe_counter in a CQE, and there are no striding receive queues: so
// it is the index of the receive.
func (s *Session) Mini(tail cqe.Tail, size uint32) uint64 {
	if tail.OpOwn().Opcode() != cqe.Req {
		return uint64(tail.Counter()&s.Indices)<<32 | uint64(size)
	}
	return uint64(tail.Counter())<<48 | uint64(tail.WQEOpcode())<<40 | uint64(size)
}

// Fits reports whether a completion can be the next one of the session. The counter of a
// send WQE is in its mini, and so is the opcode. The counter of a receive is not: pollers
// count up from the title's.
func (s *Session) Fits(rqpn, uidx, imm uint32, time uint64, tail cqe.Tail) bool {
	const counter, opcode = cqe.Tail(0xffff) << 16, cqe.Tail(0xff) << 56
	if s.Rqpn != rqpn || s.UIDX != uidx || s.Imm != imm || s.Time != time {
		return false
	}
	if tail.OpOwn().Opcode() == cqe.Req {
		return (s.Tail^tail)&^(counter|opcode) == 0
	}
	return (s.Tail^tail)&^counter == 0 && tail.Counter() == s.Tail.Counter()+uint16(s.N)
}

// MostTogether returns how many completions the next session of q can have. A session ends
// at the end of the ring at the latest, because there are pollers that give all its entries
// the owner bit of the title (UCX up to 1.13, uct_ib_mlx5_iface_cqe_unzip).
func (q *CQ) MostTogether() int {
	entries := uint64(1) << (q.Log & 63)
	return int(min(MostMinis, entries-q.Next&(entries-1)))
}
