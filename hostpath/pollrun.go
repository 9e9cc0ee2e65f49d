package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
)

// A template is what the entries of a run have in common, and what their completions have in
// common. A CQ keeps the template from one run to the next. A completion is one copy of the
// template's completion, and a store for each field that differs. If each completion were
// assembled field by field and then copied, the copy would wait for the stores just before it.
type template struct {
	tail  cqe.Tail // the last word of an entry, with owner bit 0 and without the bits of differ
	uidx  uint64   // word cqe.WordUIdx: user index and immediate
	path  uint64   // word cqe.WordPath, of receives only
	flags uint64   // word cqe.WordFlags, which has the sender's QPN; of receives only
	bytes uint32   // mask: all ones if each entry has its own byte count, otherwise 0
	c     Completion
}

// differ is the set of bits of a tail that may differ within a run: wqe_counter, signature and
// the solicited bit.
const differ = cqe.Tail(0xffffff)<<8 | cqe.Tail(cqe.SolicitedBit)

// ownerBit is the owner bit of a tail. In a tail that is valid, it is that of the entry's lap.
const ownerBit = cqe.Tail(1)

// same reports whether the entry e belongs to the run. tail is the tail of e, which the caller
// has observed. owner is the owner bit that e should have, with 0 for all other bits.
func (l *template) same(e *shm.Block, tail, owner cqe.Tail) bool {
	return (tail^l.tail^owner)&^differ == 0 && e.Word(cqe.WordUIdx) == l.uidx
}

// set makes l the template of e. tail is the tail of e, which the caller has observed. set returns
// false if e is not of the kinds that takeRun takes.
//
// A device that ignores overruns may be overwriting e. So set copies e, and does not read the tail
// again: the words by which same recognises later entries, and the fields of their completions, must
// come from the same bytes.
func (l *template) set(e *shm.Block, tail cqe.Tail) bool {
	b := *(*[cqe.Size]byte)(e)
	be.PutUint64(b[cqe.OffTail:], uint64(tail))
	n := template{tail: tail &^ (differ | ownerBit), uidx: be.Uint64(b[8*cqe.WordUIdx:])}
	n.c.Parse(&b)
	switch n.c.Opcode {
	case cqe.WCFromPost:
		return false
	case cqe.WCRecv:
		n.path, n.flags = be.Uint64(b[8*cqe.WordPath:]), be.Uint64(b[8*cqe.WordFlags:])
		fallthrough
	case cqe.WCRDMARead:
		n.c.ByteLen, n.bytes = 0, 1<<32-1
	}
	*l = n
	return true
}

// sameSender reports whether the entry of a receive has the sender and the path of l.
func (l *template) sameSender(e *shm.Block) bool {
	return e.Word(cqe.WordPath) == l.path && e.Word(cqe.WordFlags) == l.flags
}

// fill sets c to the completion of e, an entry of the run.
func (l *template) fill(c *Completion, e *shm.Block, tail cqe.Tail, id uint64) {
	*c = l.c
	c.Counter, c.ByteLen = tail.Counter(), l.c.ByteLen|uint32(e.Word(cqe.WordByteCount))&l.bytes
	c.ID, c.Timestamp = id, e.Word(cqe.WordTimestamp)
}

// takeRun takes consecutive completions off the queue, as long as they are of the commonest
// kinds and like the first completion. It returns how many completions it took. Poll handles
// all other kinds itself. The commonest kinds are
//
//   - sends that succeeded, without inline data, if the entry says what the operation was
//   - receives of an RQ, without inline data, that SENDs of one queue pair have consumed
//
// e is the first entry, at its place, and tail is its tail, which the caller has observed and found valid.
//
// takeRun stores each completion before it reads the next entry. If it looked for all entries
// first, the poller would more often read a line that the device is about to write, and both
// would wait for the line.
//
// A run ends at the end of the ring at the latest, so that its entries have one owner bit and follow
// each other in memory.
func (q *CQ) takeRun(dst []Completion, e *shm.Block, at uint64, tail cqe.Tail) int {
	l := &q.template
	sameRun := l.same(e, tail, tail&ownerBit) && (l.c.Kind != cqe.RespSend || l.sameSender(e))
	if !sameRun && !l.set(e, tail) {
		return 0
	}
	qp := q.ofTemplate()
	switch {
	case qp == nil:
		return 0
	case l.c.Kind == cqe.RespSend:
		if qp.RQ == nil || qp.SRQ != nil {
			return 0
		}
		return q.takeReceives(dst, e, at, tail, qp.RQ)
	case qp.SQ == nil:
		return 0
	}
	return q.takeSends(dst, e, at, tail, qp.SQ)
}

// ofTemplate returns the QP of the template; nil if it no longer exists.
func (q *CQ) ofTemplate() *QP {
	if qp := q.table.find(q.template.c.UIdx); qp != nil && qp.QPN == q.template.c.QPN {
		return qp
	}
	return nil
}

// takeSends is takeRun for a run of completions of sq.
func (q *CQ) takeSends(dst []Completion, e *shm.Block, at uint64, tail cqe.Tail, sq *SendRing) (n int) {
	l, owner := &q.template, tail&ownerBit
	freed, posted := sq.freed.Observe(), sq.posted.Observe()
	for {
		count := ring.Extend(freed, tail.Counter())
		if count >= posted {
			break
		}
		s := &sq.slots[count&(sq.size-1)]
		if s.note == 0 {
			break
		}
		l.fill(&dst[n], e, tail, s.id)
		freed = count + s.blocks()
		n++
		at += q.step
		if n == len(dst) || at >= uint64(len(q.blocks)) {
			break
		}
		e = &q.blocks[at]
		// Pairs with the device's Publish of the entry. The rest of the entry is read after it.
		tail = cqe.Tail(e.ObserveTail())
		if !l.same(e, tail, owner) {
			break
		}
	}
	if n > 0 {
		q.ci += uint64(n)
		sq.freed.Publish(freed)
	}
	return n
}

// takeReceives is takeRun for a run of completions of rq.
func (q *CQ) takeReceives(dst []Completion, e *shm.Block, at uint64, tail cqe.Tail, rq *RQ) (n int) {
	l, owner := &q.template, tail&ownerBit
	freed, posted := rq.freed.Observe(), rq.posted.Observe()
	for l.sameSender(e) {
		count := ring.Extend(freed, tail.Counter())
		if count >= posted {
			break
		}
		l.fill(&dst[n], e, tail, rq.ids[count&(rq.size-1)])
		freed = count + 1
		n++
		at += q.step
		if n == len(dst) || at >= uint64(len(q.blocks)) {
			break
		}
		e = &q.blocks[at]
		// As in takeSends.
		tail = cqe.Tail(e.ObserveTail())
		if !l.same(e, tail, owner) {
			break
		}
	}
	if n > 0 {
		q.ci += uint64(n)
		rq.freed.Publish(freed)
	}
	return n
}
