package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
)

// formatBits are the bits of a tail that say what the entry holds. In the tail of an ordinary entry
// they are 0.
const formatBits = cqe.Tail(cqe.FormatCompressed) << 2

// takeSession takes all completions of a session off the queue, and returns how many they are. It
// makes them from the minis, and writes only the owner bits into the entries. It takes sessions of the
// kinds that takeRun takes, if dst has room for the whole session and the session does not reach
// beyond the end of the ring. Otherwise it returns 0 and changes nothing but the template, and
// Poll expands the session.
//
// e is the title, at its place, and tail is its tail, which the caller has observed and found valid.
// The device wrote the minis before the title.
func (q *CQ) takeSession(dst []Completion, e *shm.Block, at uint64, tail cqe.Tail) int {
	tail &^= formatBits
	n := e.Word(cqe.WordByteCount) & (1<<32 - 1)
	if n < 2 || n > uint64(len(dst)) || n > uint64(len(q.blocks))-at {
		return 0
	}
	if !q.template.set(e, tail) {
		return 0
	}
	entries, o := q.blocks[at:at+n], tail.OpOwn()
	qp := q.ofTemplate()
	switch {
	case qp == nil:
		return 0
	case o.PlainReq() && qp.SQ != nil:
		if !q.takeSentSession(dst, entries, tail, qp.SQ) {
			return 0
		}
	case o.PlainRespSend() && qp.RQ != nil && qp.SRQ == nil && q.mini <= cqe.MiniChecksum:
		if !q.takeReceivedSession(dst, entries, tail, qp.RQ) {
			return 0
		}
	default:
		return 0
	}
	for i := range entries { // see docs/design/0024, under "What a poller must do"
		entries[i][cqe.OffOpOwn] = uint8(o)
	}
	q.ci += n
	return int(n)
}

// takeSentSession is takeSession for completions of sq. It returns false if they are not of the title's
// opcode, or are of work that was not posted.
func (q *CQ) takeSentSession(dst []Completion, entries []shm.Block, tail cqe.Tail, sq *SendRing) bool {
	l, time := &q.template, entries[0].Word(cqe.WordTimestamp)
	freed, posted := sq.freed.Observe(), sq.posted.Observe()
	for i := range entries {
		m := mini(entries, i)
		// A mini has opcode and counter at other places than a tail.
		count := ring.Extend(freed, uint16(m>>48))
		if uint8(m>>40) != tail.WQEOpcode() || count >= posted {
			return false
		}
		s := &sq.slots[count&(sq.size-1)]
		if s.note == 0 {
			return false
		}
		c := &dst[i]
		*c = l.c
		c.Counter, c.ByteLen, c.ID, c.Timestamp = uint16(m>>48), l.c.ByteLen|uint32(m)&l.bytes, s.id, time
		freed = count + s.blocks()
	}
	sq.freed.Publish(freed)
	return true
}

// takeReceivedSession is takeSession for completions of rq, in the formats whose minis do not say
// which receive was used. Then the receives follow that of the title.
func (q *CQ) takeReceivedSession(dst []Completion, entries []shm.Block, tail cqe.Tail, rq *RQ) bool {
	l, time := &q.template, entries[0].Word(cqe.WordTimestamp)
	count := ring.Extend(rq.freed.Observe(), tail.Counter())
	if count+uint64(len(entries)) > rq.posted.Observe() {
		return false
	}
	for i := range entries {
		c := &dst[i]
		*c = l.c
		c.Counter, c.ByteLen = uint16(count), uint32(mini(entries, i))
		c.ID, c.Timestamp = rq.ids[count&(rq.size-1)], time
		count++
	}
	rq.freed.Publish(count)
	return true
}

// mini returns mini i of a session as a big-endian number. There are at least two entries.
func mini(entries []shm.Block, i int) uint64 {
	return entries[max(1, i&^(cqe.ArrayMinis-1))].Word(uint(i % cqe.ArrayMinis))
}
