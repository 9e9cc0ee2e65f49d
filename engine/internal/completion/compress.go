//go:build linux && (amd64 || arm64)

package completion

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/internal/control"
)

// titleFormat is the format "compressed" at its place in the tail of a title.
const titleFormat = cqe.Tail(cqe.FormatCompressed) << 2

// Collect is Complete for a compressed queue, on the fast path, and for completions that are neither
// solicited nor errors. Collect writes no CQE; it adds the completion to the session of q. The caller
// must call WriteSession before the fast path ends. Collect reports whether q has room for the
// completion. n is the byte count. If the completion does not fit to those in the session, Collect
// writes the session and begins another.
func (sh *Completer) Collect(q *object.CQ, rqpn, uidx, imm, n uint32, tail cqe.Tail) bool {
	s, time := q.Session, sh.Clock()
	if s.N > 0 && !s.Fits(rqpn, uidx, imm, time, tail) {
		sh.WriteSession(q)
	}
	if s.N >= s.Most && !sh.makeRoom(q) {
		return false
	}
	if s.N == 0 {
		s.Rqpn, s.UIDX, s.Imm, s.Time, s.Tail = rqpn, uidx, imm, time, tail
	}
	s.Minis[s.N%object.MostMinis] = s.Mini(tail, n)
	s.N++
	return true
}

// CollectAll is Executor.CompleteAll for a compressed queue: it collects the completions of the signaled
// WQEs of a series. left is the number of WQEs that are left. Bit left-1 of signaled is for the next WQE,
// bit 0 for the last. tail is that of the next WQE.
func (sh *Completer) CollectAll(c *object.CQ, left int, signaled uint64, rqpn, uidx, n uint32,
	tail cqe.Tail) {
	s := c.Session
	for left > 0 {
		if signaled>>(left-1)&1 != 0 {
			sh.Collect(c, rqpn, uidx, 0, n, tail) // there is room, see seriesLength
		}
		left--
		tail = tail.Later(1)
		if signaled&AllSignaled(left) != AllSignaled(left) || s.N == 0 {
			continue
		}
		// The session has completions, and all WQEs that are left are signaled. Their completions fit
		// into the session, because they differ in the counter only.
		mini, step := s.Mini(tail, n), uint64(1)<<48
		k := min(left, s.Most-s.N)
		if tail.OpOwn().Opcode() != cqe.Req {
			step = uint64(s.Indices&1) << 32
			k = min(k, 1<<16-int(tail.Counter())) // the stride index must not carry into the checksum
		}
		for i := range k {
			s.Minis[(s.N+i)%object.MostMinis] = mini
			mini += step
		}
		s.N += k
		left -= k
		tail = tail.Later(k)
	}
}

// WriteReceives is called before the completions of n SENDs of q to p are written or collected. The
// completions of the receives that these SENDs have used are collected, and must be written before
// those of the SENDs. So WriteReceives writes them now, unless the session of the SENDs has room for
// all n, and the caller writes both sessions later.
func (sh *Completer) WriteReceives(q, p *object.QP, n int) {
	if p.RQ.CQ.Session == nil {
		return
	}
	if s := q.SQ.CQ.Session; s == nil || s.N+n > q.SQ.CQ.MostTogether() {
		sh.WriteSession(p.RQ.CQ)
	}
}

// CollectSend collects the completion of a WQE of q, and reports whether there was room for it. If the
// session of q is full, Collect will write it. Then CollectSend first writes the completions of the
// receives that the WQEs of q have used, because these come before those of the WQEs.
func (sh *Completer) CollectSend(q *object.QP, n uint32, tail cqe.Tail) bool {
	if s := q.SQ.CQ.Session; s.N > 0 && s.N >= s.Most {
		sh.WriteSession(q.Conn.Peer.RQ.CQ)
	}
	return sh.Collect(q.SQ.CQ, 0, q.UIDX, 0, n, tail)
}

// makeRoom reports whether q has room for one completion more than are collected, and sets how many
// completions the session can have. It writes the session if no completion can be added to it.
func (sh *Completer) makeRoom(q *object.CQ) bool {
	s, entries := q.Session, uint64(1)<<(q.Log&63)
	if s.N >= q.MostTogether() {
		sh.WriteSession(q)
	}
	collected := uint64(s.N)
	seemsFull := q.Next+collected-q.Seen >= entries // according to the consumer index that was read last
	if seemsFull && !q.Ignore && !q.Room(entries-collected) {
		sh.WriteSession(q)
		return false
	}
	s.Most = q.MostTogether()
	if !q.Ignore {
		s.Most = int(min(uint64(s.Most), entries-q.Unread()))
	}
	return true
}

// WriteSession writes what is collected for q. A single completion is written as an
// ordinary CQE, because a title with one mini would take two entries.
func (sh *Completer) WriteSession(q *object.CQ) {
	s := q.Session
	if s == nil || s.N == 0 {
		return
	}
	minis := s.Minis[:s.N]
	s.N, s.Most = 0, 0 // before the stores, so that a session whose stores fault is not written again
	if q.Watched != 0 && len(minis) > 1 {
		sh.recordSession(q, minis)
	}
	if len(minis) == 1 {
		// Complete does not fail, because Collect has found room. The low half of the mini is the byte count.
		sh.Complete(q, s.Rqpn, s.UIDX, s.Imm, uint32(minis[0]), s.Time, s.Tail, object.Quietly)
		return
	}
	sh.completeCompressed(q, s.Rqpn, s.UIDX, s.Imm, s.Time, s.Tail, minis)
}

// completeCompressed writes one session: the minis, and then the title. The caller has made
// sure that q has room for len(minis) completions. There are at least 2, and at most as many
// as MostTogether says. tail is that of the first completion, without owner. Each mini is a
// result of Session.Mini.
//
// The session takes as many entries as it has minis. The title is in the first entry, and the
// minis are in the entries that cqe.MiniPlace says. The other entries are not written, and keep the
// owner bit of an earlier lap until the poller sets it.
//
// Publish: title. Observed by hostpath.CQ.Poll, like the tail of any CQE. The minis are
// stored before it, so that a poller that sees the title sees the whole session.
func (sh *Completer) completeCompressed(q *object.CQ, rqpn, uidx, imm uint32, time uint64, tail cqe.Tail,
	minis []uint64) {
	mask := uint64(1)<<(q.Log&63) - 1
	index, n := q.Next, len(minis)
	for i := 0; i < n; i += cqe.ArrayMinis {
		slots, _ := cqe.MiniPlace(i)
		array := q.Entry((index + uint64(slots)) & mask)
		for k, m := range minis[i:min(i+cqe.ArrayMinis, n)] {
			binary.BigEndian.PutUint64(array[k*cqe.MiniSize:], m)
		}
	}
	title := q.Entry(index & mask)
	cqe.PutBody((*[cqe.Size]byte)(title), rqpn, uidx, imm, uint32(n), time)
	title.PublishTail(uint64((tail | titleFormat).Owned(index, q.Log)))
	q.Next = index + uint64(n) // done last, so that a session whose stores fault does not count as written
	q.Client.Count[control.CounterCQEs] += uint64(n)
	if q.Armed {
		sh.Notify(q, object.Quietly)
	}
}

// WriteCollected is called when a fault of memory has ended the work of q. It writes the completions
// that were collected before, first those of the receives, then those of the SENDs that have used them.
func (sh *Completer) WriteCollected(q *object.QP) {
	if p := q.Conn.Peer; p != nil && sh.Holds(p.Client.Shard) {
		sh.writeOrDrop(p.RQ.CQ)
	}
	sh.writeOrDrop(q.SQ.CQ)
}

// writeOrDrop writes what is collected for q. If the memory of q has no page, the collected
// completions are lost, as an ordinary completion would be.
func (sh *Completer) writeOrDrop(q *object.CQ) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := pagefault.Of(r); !ok {
				panic(r)
			}
		}
	}()
	sh.WriteSession(q)
}

// AllSignaled returns the bits, one for each of the n WQEs of a series, which say that all are signaled.
func AllSignaled(n int) uint64 { return 1<<n - 1 }
