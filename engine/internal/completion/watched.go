//go:build linux && (amd64 || arm64)

package completion

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/trace"
)

// recordCQE records the completion that Complete is about to write; the parameters are those of Complete.
func (sh *Completer) recordCQE(q *object.CQ, rqpn, uidx, imm, n uint32, time uint64, tail cqe.Tail,
	a object.Attention) {
	var b [cqe.Size]byte
	cqe.PutBody(&b, rqpn, uidx, imm, n, time)
	if a == object.Solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	sh.record(q, q.Next, &b, tail, 1)
}

// record records n completions of a watched queue, of which the first has this index. b is the first of them,
// without its tail. They are alike but for their tails, in which only wqe_counter differs, and grows by one.
func (sh *Completer) record(q *object.CQ, index uint64, b *[cqe.Size]byte, tail cqe.Tail, n int) {
	binary.BigEndian.PutUint64(b[cqe.Size-8:], uint64(tail.Owned(index, q.Log)))
	sh.Taps.Record(q.Watched, &trace.Event{Kind: trace.KindCQE, Time: clock.Now(), Queue: q.Num,
		Index: uint16(index), Count: uint16(n), Value: index, Data: b[:]})
}

// CompleteRecorded writes n consecutive completions to a queue that would be plain if it were not watched,
// and records each run of them. The parameters are those of CQ.CompleteRun.
func (sh *Completer) CompleteRecorded(c *object.CQ, n int, rqpn, uidx uint32, bytes uint64, tail cqe.Tail) {
	var b [cqe.Size]byte
	cqe.PutBody(&b, rqpn, uidx, 0, uint32(bytes), sh.Clock())
	for n > 0 {
		index := c.Next
		k := c.CompleteRun(n, rqpn, uidx, bytes, sh.Clock(), tail)
		sh.record(c, index, &b, tail, k)
		tail = tail.Later(k)
		n -= k
	}
}

// recordInline is recordCQE for a completion that CompleteInline is about to write. data are in the first
// bytes of the CQE, or in the entry before it, if entries have 128 bytes.
func (sh *Completer) recordInline(q *object.CQ, data []byte, rqpn, uidx, imm uint32, tail cqe.Tail,
	a object.Attention) {
	var b [cqe.Size]byte
	cqe.PutBody(&b, rqpn, uidx, imm, uint32(len(data)), sh.Clock())
	format := cqe.FormatInline64
	if q.LogCQE != 7 {
		format = cqe.FormatInline32
		copy(b[:cqe.MaxInline32], data)
	}
	if a == object.Solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	sh.record(q, q.Next, &b, tail|cqe.Tail(format)<<2, 1)
}

// recordSession records the completions of a session that is about to be written, as if they were written
// one by one.
func (sh *Completer) recordSession(q *object.CQ, minis []uint64) {
	const counter, opcode = cqe.Tail(0xffff) << 16, cqe.Tail(0xff) << 56
	s := q.Session
	for i, m := range minis {
		tail := s.Tail.Later(i)
		if tail.OpOwn().Opcode() == cqe.Req {
			tail = s.Tail&^(counter|opcode) | cqe.Tail(m>>48)<<16 | cqe.Tail(m>>40&0xff)<<56
		}
		var b [cqe.Size]byte
		cqe.PutBody(&b, s.Rqpn, s.UIDX, s.Imm, uint32(m), s.Time)
		sh.record(q, q.Next+uint64(i), &b, tail, 1)
	}
}
