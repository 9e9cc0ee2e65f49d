//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
)

// mostMinis is the most completions in one session. libmlx5 reports it to programs as
// cqe_comp_caps.max_num.
const mostMinis = control.MaxMinis

// titleFormat is the format of a title in its tail.
const titleFormat = cqe.Tail(cqe.FormatCompressed) << 2

// A session collects completions of a compressed CQ in private memory, until writeSession
// puts them into the queue as a title and its minis. They all are completions of one queue
// pair and of one kind, and share the bytes of the title. Only completions of one call of
// the fast path are in a session, so no completion waits for work that has not been
// announced. See docs/design/0024.
type session struct {
	n, most         int // completions collected, and how many there is room for; if n is 0, all other fields mean nothing
	rqpn, uidx, imm uint32
	time            uint64
	tail            cqe.Tail // of the first completion; the title gets it
	minis           [mostMinis]uint64

	indices uint16 // 0xffff: minis of receives have their index as stride index; 0: they do not
}

func newSession(format uint8) *session {
	s := new(session)
	if format == control.MiniChecksumStride {
		s.indices = 0xffff
	}
	return s
}

// mini returns the mini of a completion as a big-endian number. The mini of a send WQE is
// wqe_counter:16 opcode:8 0:8 byte_cnt:32. The first word of a receive's mini is a hash, a
// checksum, or checksum:16 stride:16. This device has neither hashes nor checksums. The stride
// index takes the place of wqe_counter in a CQE, and there are no striding receive queues: so
// it is the index of the receive.
func (s *session) mini(tail cqe.Tail, size uint32) uint64 {
	if tail.OpOwn().Opcode() != cqe.Req {
		return uint64(tail.Counter()&s.indices)<<32 | uint64(size)
	}
	return uint64(tail.Counter())<<48 | uint64(tail.WQEOpcode())<<40 | uint64(size)
}

// fits reports whether a completion can be the next one of the session. The counter of a
// send WQE is in its mini, and so is the opcode. The counter of a receive is not: pollers
// count up from the title's.
func (s *session) fits(rqpn, uidx, imm uint32, time uint64, tail cqe.Tail) bool {
	const counter, opcode = cqe.Tail(0xffff) << 16, cqe.Tail(0xff) << 56
	if s.rqpn != rqpn || s.uidx != uidx || s.imm != imm || s.time != time {
		return false
	}
	if tail.OpOwn().Opcode() == cqe.Req {
		return (s.tail^tail)&^(counter|opcode) == 0
	}
	return (s.tail^tail)&^counter == 0 && tail.Counter() == s.tail.Counter()+uint16(s.n)
}

// collect is complete for a completion on the fast path that is neither solicited nor an
// error, in a compressed queue. It only collects the completion; writeSession must follow before the
// fast path ends. collect reports whether there is room for the completion. n is the byte
// count. If the completion does not belong to the session that is being collected, that
// session is written first.
func (sh *completer) collect(q *cq, rqpn, uidx, imm, n uint32, tail cqe.Tail) bool {
	s, time := q.session, sh.clock()
	if s.n > 0 && !s.fits(rqpn, uidx, imm, time, tail) {
		sh.writeSession(q)
	}
	if s.n >= s.most && !sh.roomTogether(q) {
		return false
	}
	if s.n == 0 {
		s.rqpn, s.uidx, s.imm, s.time, s.tail = rqpn, uidx, imm, time, tail
	}
	s.minis[s.n%mostMinis] = s.mini(tail, n)
	s.n++
	return true
}

// collectAll is completeAll for a compressed queue. It collects the completions.
func (sh *completer) collectAll(c *cq, left int, signaled uint64, rqpn, uidx, n uint32, tail cqe.Tail) {
	s := c.session
	for left > 0 {
		if signaled>>(left-1)&1 != 0 {
			sh.collect(c, rqpn, uidx, 0, n, tail) // there is room, see seriesLength
		}
		left--
		tail = tail.Later(1)
		if signaled&allSignaled(left) != allSignaled(left) || s.n == 0 {
			continue
		}
		// A session is open, all WQEs from here on are signaled, and they fit: they differ in
		// the counter only.
		mini, step := s.mini(tail, n), uint64(1)<<48
		k := min(left, s.most-s.n)
		if tail.OpOwn().Opcode() != cqe.Req {
			step = uint64(s.indices&1) << 32
			k = min(k, 1<<16-int(tail.Counter())) // the index must not carry into the checksum
		}
		for i := range k {
			s.minis[(s.n+i)%mostMinis] = mini
			mini += step
		}
		s.n += k
		left -= k
		tail = tail.Later(k)
	}
}

// writeReceives writes the completions of receives that n SENDs of q to p have used, if those of
// the SENDs could be written first: because they are not collected, or because they do not all
// fit into their session. The receives are completed before the SENDs.
func (sh *completer) writeReceives(q, p *qp, n int) {
	if p.rq.cq.session == nil {
		return
	}
	if s := q.sq.cq.session; s == nil || s.n+n > q.sq.cq.mostTogether() {
		sh.writeSession(p.rq.cq)
	}
}

// collectSend collects the completion of a WQE of q. If q's session is full, the receives
// that its WQEs have used are completed before it is written, as without compression.
func (sh *completer) collectSend(q *qp, n uint32, tail cqe.Tail) bool {
	if s := q.sq.cq.session; s.n > 0 && s.n >= s.most {
		sh.writeSession(q.conn.peer.rq.cq)
	}
	return sh.collect(q.sq.cq, 0, q.uidx, 0, n, tail)
}

// roomTogether reports whether q has room for one completion more than are collected. It
// writes the session if no completion can be added to it.
func (sh *completer) roomTogether(q *cq) bool {
	s, entries := q.session, uint64(1)<<(q.log&63)
	if s.n >= q.mostTogether() {
		sh.writeSession(q)
	}
	if n := uint64(s.n); q.next+n-q.seen >= entries && !q.ignore && !q.room(entries-n) {
		sh.writeSession(q)
		return false
	}
	s.most = q.mostTogether()
	if !q.ignore {
		s.most = int(min(uint64(s.most), entries-q.unread()))
	}
	return true
}

// mostTogether returns how many completions the next session of q can have. A session ends
// at the end of the ring at the latest, because there are pollers that give all its entries
// the owner bit of the title (UCX up to 1.13, uct_ib_mlx5_iface_cqe_unzip).
func (q *cq) mostTogether() int {
	entries := uint64(1) << (q.log & 63)
	return int(min(mostMinis, entries-q.next&(entries-1)))
}

// writeSession writes what is collected for q. A single completion is written as an
// ordinary CQE, because the mini of a session of one would take the entry after it.
func (sh *completer) writeSession(q *cq) {
	s := q.session
	if s == nil || s.n == 0 {
		return
	}
	minis := s.minis[:s.n]
	s.n, s.most = 0, 0 // before the stores, so that a session whose stores fault is not written again
	if len(minis) == 1 {
		sh.complete(q, s.rqpn, s.uidx, s.imm, uint32(minis[0]), s.time, s.tail, quietly) // collect has found room
		return
	}
	sh.completeCompressed(q, s.rqpn, s.uidx, s.imm, s.time, s.tail, minis)
}

// completeCompressed writes one session: the minis, and then the title. The caller has made
// sure that q has room for len(minis) completions. There are at least 2, and at most as many
// as mostTogether says. tail is that of the first completion, without owner. Each mini is a
// result of session.mini.
//
// The session takes as many entries as it has minis. The title is in the first of them, the
// minis are where cqe.MiniPlace says, and nothing is stored into the others. Such an entry
// keeps its owner bit of an earlier lap until the poller sets it.
//
// Publish: title. Observed by hostpath.CQ.Poll, like the tail of any CQE. The minis are
// stored before it, so that a poller that sees the title sees the whole session.
func (sh *completer) completeCompressed(q *cq, rqpn, uidx, imm uint32, time uint64, tail cqe.Tail, minis []uint64) {
	mask := uint64(1)<<(q.log&63) - 1
	index, n := q.next, len(minis)
	for i := 0; i < n; i += cqe.ArrayMinis {
		slots, _ := cqe.MiniPlace(i)
		array := q.entry((index + uint64(slots)) & mask)
		for k, m := range minis[i:min(i+cqe.ArrayMinis, n)] {
			binary.BigEndian.PutUint64(array[k*cqe.MiniSize:], m)
		}
	}
	title := q.entry(index & mask)
	cqe.PutBody((*[cqe.Size]byte)(title), rqpn, uidx, imm, uint32(n), time)
	title.PublishTail(uint64((tail | titleFormat).Owned(index, q.log)))
	q.next = index + uint64(n) // done last, so that a session whose stores fault does not count as written
	q.client.count[control.CounterCQEs] += uint64(n)
	if q.armed {
		sh.tell(q, quietly)
	}
}

// writeCollected writes what was collected before a fault of memory has ended the work of q. The
// receives are completed before the SENDs that have used them.
func (sh *completer) writeCollected(q *qp) {
	if p := q.conn.peer; p != nil && sh.holds(p.client.shard) {
		sh.writeOrDrop(p.rq.cq)
	}
	sh.writeOrDrop(q.sq.cq)
}

// writeOrDrop writes what is collected for q. If the memory of q has no page, the collected
// completions are lost, as an ordinary completion would be.
func (sh *completer) writeOrDrop(q *cq) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := faultOf(r); !ok {
				panic(r)
			}
		}
	}()
	sh.writeSession(q)
}
