//go:build linux && (amd64 || arm64)

package execution

import (
	"encoding/binary"
	"math/bits"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

const seriesBytes = 16 << 10

// seriesLength returns how many WQEs may be executed as a series whose first WQE is q's next WQE, with
// the control segment h and a payload of n bytes, at least 1. The result is at most the parameter
// most, and there is room for the completions of so many. If it is less than 2, there is no
// series. The opmod must be 0 because OpWord.Next makes it 0.
func seriesLength(q *object.QP, h object.Head, n uint64, most int) int {
	if most < 2 || !h.Second.Plain() || h.First.OpMod() != 0 ||
		h.Place() != object.Place(q.Num, q.SQ.Done) { // rule: a series begins at its place
		return 0
	}
	return q.SQ.CQ.Free(min(most, object.MostSeries, seriesBytes/int(n)))
}

// Move is copy, without a call for 8 to 16 bytes. dst is as long as src.
func Move(dst, src []byte) {
	if len(src) > 16 || len(src) < 8 {
		copy(dst, src)
		return
	}
	le := binary.LittleEndian
	head, tail := le.Uint64(src), le.Uint64(src[len(src)-8:])
	le.PutUint64(dst, head)
	le.PutUint64(dst[len(dst)-8:], tail)
}

// fewBytes reports whether moveFew can move n bytes.
func fewBytes(n uint64) bool { return n-8 <= 8 }

// moveFew is Move for areas that have n bytes.
func moveFew(dst, src shm.Area, n uint64) {
	head, tail := src.Load(0), src.Load(n-8) // rule: both halves of a payload are moved
	dst.Store(0, head)
	dst.Store(n-8, tail)
}

// completeSeries completes the WQEs of the shard's series, which are the next WQEs of q, and returns how
// many they are.
func (sh *Executor) completeSeries(q *object.QP) (n int) {
	s := sh.series
	sh.series.done = 0
	if n = s.done; n == 0 {
		return 0
	}
	bytes := uint64(0) // byte count of the requester's completions
	switch s.op {
	case wqe.OpSend:
		p := q.Conn.Peer
		tail := object.ResponderTail(p.Num, uint16(p.RQ.Done), cqe.RespSend)
		p.RQ.Done += uint64(n)
		p.Client.Count[control.CounterReceives] += uint64(n) // rule: the receives of a series are counted
		sh.CompleteAll(p.RQ.CQ, n, completion.AllSignaled(n), q.Num, p.UIDX, s.bytes, tail)
		sh.WriteReceives(q, p, n)
	case wqe.OpRDMARead:
		bytes = s.bytes // rule: the READs of a series report their bytes
	}
	tail := object.RequesterTail(s.op, q.Num, uint16(q.SQ.Done))
	q.SQ.Done += uint64(n)
	sh.CompleteAll(q.SQ.CQ, n, s.signaled, 0, q.UIDX, bytes, tail)
	return n
}

// CompleteCutSeries completes the WQEs that were executed before a fault of memory cut their series
// off. If the memory of the completion queue faults too, the completions are lost: the queue pair
// goes to error, and the flush finds that fault again.
func (sh *Executor) CompleteCutSeries(q *object.QP) {
	if sh.series.done == 0 {
		return
	}
	count, bytes := &q.Client.Count, sh.series.bytes
	defer func() {
		if r := recover(); r != nil {
			if _, ok := pagefault.Of(r); !ok {
				panic(r)
			}
		}
	}()
	op, p := sh.series.op, q.Conn.Peer
	n := uint64(sh.completeSeries(q))
	count[control.CounterWQEs] += n
	count[control.CounterBytes] += n * bytes
	q.SQ.WQEs += n
	q.SQ.Moved += n * bytes
	traffic.Messages(q, p, op, n, bytes)
}

// CompleteAll writes a completion for each of n WQEs that is signaled; signaled has a bit for each, as in a
// series. The tails differ in wqe_counter, which grows by one from WQE to WQE; tail is that of the first
// WQE. The method Free has found room for all completions.
func (sh *Executor) CompleteAll(c *object.CQ, n int, signaled uint64, rqpn, uidx uint32, bytes uint64,
	tail cqe.Tail) {
	if c.Session != nil {
		sh.CollectAll(c, n, signaled, rqpn, uidx, uint32(bytes), tail)
		return
	}
	if signaled == completion.AllSignaled(n) && c.Plain() {
		for n > 0 {
			k := c.CompleteRun(n, rqpn, uidx, bytes, sh.Clock(), tail)
			tail = tail.Later(k)
			n -= k
		}
		return
	}
	if signaled == completion.AllSignaled(n) && c.PlainButWatched() {
		sh.CompleteRecorded(c, n, rqpn, uidx, bytes, tail)
		return
	}
	plain := c.Plain()
	for left := signaled; left != 0; { // rule: only signaled WQEs of a series complete
		last := bits.Len64(left) - 1
		left &^= 1 << last
		t := tail.Later(n - 1 - last)
		if plain {
			c.CompleteRun(1, rqpn, uidx, bytes, sh.Clock(), t)
		} else {
			sh.Complete(c, rqpn, uidx, 0, uint32(bytes), sh.Clock(), t, object.Quietly)
		}
	}
}
