//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Posters that post lists, or that keep many operations in flight, post WQEs that differ in
// nothing but their addresses and in whether they are signaled. The fast path executes such WQEs
// together, as a series. The first WQE has been judged as usual. The others are compared with it:
// if the words that hold opcode, place, size and keys are the same, only the addresses are left
// to judge. All bytes are moved before the first completion is written. So there are few other
// stores between the stores to the completion queue, and the processor can fetch more of that
// queue's cache lines from the poller's core at the same time.

// mostSeries is how many WQEs a series can have, and seriesBytes how many bytes it can move: its
// first completion waits until all of them have been executed.
const (
	mostSeries  = 16
	seriesBytes = 16 << 10
)

// A series is what the shard knows of the WQEs that it is executing together.
type series struct {
	done     int    // WQEs that have been executed; 0: there is no series
	signaled uint64 // one bit for each of them: it is signaled. The lowest bit is that of the last one
	op       wqe.Opcode
	bytes    uint64 // payload of each WQE
}

// allSignaled is the field signaled of a series of n WQEs that are all signaled.
func allSignaled(n int) uint64 { return 1<<n - 1 }

// seriesLength returns how many WQEs may be executed as a series whose first WQE is q's next WQE, with
// the control segment h and a payload of n bytes, at least 1. The result is at most the parameter
// most, and there is room for the completions of so many. If it is less than 2, there is no
// series. The opmod must be 0 because OpWord.Next makes it 0.
func seriesLength(q *qp, h head, n uint64, most int) int {
	if most < 2 || !h.second.Plain() || h.first.OpMod() != 0 ||
		h.place() != place(q.num, q.sq.done) { // rule: a series begins at its place
		return 0
	}
	return q.sq.cq.free(min(most, mostSeries, seriesBytes/int(n)))
}

// payloads returns where the local payloads of a series are: memory, the address of its first byte,
// and the last offset at which a payload of n bytes fits. same has the bits in which the first words
// of the data segments must not differ. k is nil if the payloads are inline.
func (k *mkey) payloads(n uint64) (mem []byte, base, last uint64, same wqe.DataWord) {
	if k == nil {
		return nil, 0, 0, ^wqe.MayDifferInline
	}
	return k.mem, k.base, uint64(len(k.mem)) - n, ^wqe.MayDifferPointer
}

// move is copy, without a call for 8 to 16 bytes. dst is as long as src.
func move(dst, src []byte) {
	if len(src) > 16 || len(src) < 8 {
		copy(dst, src)
		return
	}
	le := binary.LittleEndian
	head, tail := le.Uint64(src), le.Uint64(src[len(src)-8:]) // rule: both halves of a payload are moved
	le.PutUint64(dst, head)
	le.PutUint64(dst[len(dst)-8:], tail)
}

// completeSeries completes the WQEs of the shard's series, which are the next WQEs of q, and returns how
// many they are.
func (sh *executor) completeSeries(q *qp) (n int) {
	s := sh.series
	sh.series.done = 0
	if n = s.done; n == 0 {
		return 0
	}
	bytes := uint64(0) // byte count of the requester's completions
	switch s.op {
	case wqe.OpSend:
		p := q.conn.peer
		tail := responderTail(p.num, uint16(p.rq.done), cqe.RespSend)
		p.rq.done += uint64(n)
		p.client.count[control.CounterReceives] += uint64(n) // rule: the receives of a series are counted
		sh.completeAll(p.rq.cq, n, allSignaled(n), q.num, p.uidx, s.bytes, tail)
		sh.writeReceives(q, p, n)
	case wqe.OpRDMARead:
		bytes = s.bytes // rule: the READs of a series report their bytes
	}
	tail := requesterTail(s.op, q.num, uint16(q.sq.done))
	q.sq.done += uint64(n)
	sh.completeAll(q.sq.cq, n, s.signaled, 0, q.uidx, bytes, tail)
	return n
}

// completeCutSeries completes the WQEs that were executed before a fault of memory cut their series
// off. If the memory of the completion queue faults too, the completions are lost: the queue pair
// goes to error, and the flush meets that fault again.
func (sh *executor) completeCutSeries(q *qp) {
	if sh.series.done == 0 {
		return
	}
	count, bytes := &q.client.count, sh.series.bytes
	defer func() {
		if r := recover(); r != nil {
			if _, ok := faultOf(r); !ok {
				panic(r)
			}
		}
	}()
	n := uint64(sh.completeSeries(q))
	count[control.CounterWQEs] += n
	count[control.CounterBytes] += n * bytes
}

// completeAll writes a completion for each of n WQEs that is signaled; signaled has a bit for each, as in a
// series. The tails differ in wqe_counter, which grows by one from WQE to WQE; tail is that of the first
// WQE. The method free has found room for all completions.
func (sh *executor) completeAll(c *cq, n int, signaled uint64, rqpn, uidx uint32, bytes uint64, tail cqe.Tail) {
	if c.session != nil {
		sh.collectAll(c, n, signaled, rqpn, uidx, uint32(bytes), tail)
		return
	}
	if signaled == allSignaled(n) && c.plain() {
		for n > 0 {
			k := c.completeRun(n, rqpn, uidx, bytes, sh.clock(), tail)
			tail = tail.Later(k)
			n -= k
		}
		return
	}
	for i := n - 1; i >= 0; i-- {
		if signaled>>i&1 != 0 { // rule: only signaled WQEs of a series complete
			sh.complete(c, rqpn, uidx, 0, uint32(bytes), sh.clock(), tail, quietly)
		}
		tail = tail.Later(1)
	}
}
