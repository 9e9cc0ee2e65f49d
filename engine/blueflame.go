package engine

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A blueFlame is the BlueFlame register of a queue pair that has one of its own, and
// what has been seen there. A WQE found in it is executed before the record says
// that there is one: one line on its way where ring and record are two. The
// record stays the truth, the register a hint: what is overwritten there before
// it is seen, or is in any way unusual, is executed from the ring.
type blueFlame struct {
	half [2]*shm.Block
	seen [2]uint64 // first words, as last found; who does not change has said nothing new
	next uint8     // half where the next WQE goes, if it goes there: they take turns
	hot  uint8     // visits for which that is the only place to look at
}

// attachBlueFlame gives q a register, number from 1 on, of the UAR page that begins at page in
// its bank.
func (q *qp) attachBlueFlame(page uint64, number uint8) {
	at := page + doorbell.BFOffset + uint64(number-1)*doorbell.BFRegSize
	q.sq.blueFlame = &blueFlame{half: [2]*shm.Block{shm.BlockAt(q.sq.registers, at), shm.BlockAt(q.sq.registers, at+doorbell.BFHalf)}}
}

// observe takes what lies in the register for old, and its heat too: WQEs of another
// life.
func (f *blueFlame) observe() {
	f.hot = 0
	for i, b := range f.half {
		f.seen[i] = b.Word(0)
	}
}

// hotVisits is how long a register is hot: after a WQE was found there, only the half
// where the next one goes is looked at in so many visits. A visit that looks at the
// record too waits for a line more that the poster has just written. Whatever else
// is posted changes that half as well, and ends the heat.
const hotVisits = 64

// mostAhead is how far the register may lead in front of the record. Much more
// could not be told from a record that is ahead of what was executed.
const mostAhead = 1 << 14

// hot reports whether q's record need not be looked at in this visit.
func (q *qp) hot() bool {
	if q.sq.blueFlame.hot == 0 || q.job != nil || q.sq.ahead > mostAhead/2 {
		return false
	}
	q.sq.blueFlame.hot--
	return true
}

// pollBlueFlame executes q's next WQE if it lies in the register. Nothing else is known to
// be announced.
func (sh *shard) pollBlueFlame(q *qp) int {
	if done := sh.pollBlueFlameHalf(q, q.sq.blueFlame.next); done > 0 {
		return done
	}
	return sh.pollBlueFlameHalf(q, q.sq.blueFlame.next^1)
}

// pollBlueFlameHalf executes q's next WQE if it lies in one half of the register, complete,
// and takes the fast path.
//
// Observe: BlueFlame register. Published by post.SQ.flare.
func (sh *shard) pollBlueFlameHalf(q *qp, half uint8) (done int) {
	f := q.sq.blueFlame
	b, seen := f.half[half&1], &f.seen[half&1]
	first := b.Word(0)
	if first == *seen {
		return 0
	}
	f.hot = 0 // unless this is it, the record has news
	h := head{first: first}
	if h.place() != place(q.num, q.sq.done) || q.sq.ahead >= mostAhead || sh.several && sh.shardOfPeer(q) != nil {
		*seen = first
		return 0
	}
	if !b.Snapshot((*[wqe.BlockSize]byte)(sh.scratch.block), first) {
		return 0 // it is being written over: the record will tell
	}
	*seen = first
	if done, sh.sched.spent = sh.fastPathFrom(q, wqes{mem: sh.scratch.block}, 1, sh.cfg.Slice); done > 0 {
		q.sq.ahead++
		f.next, f.hot = half^1, hotVisits
	}
	return done
}

// lags reports whether a send record that is n blocks ahead, modulo 2^16, is
// behind by no more than what was executed from the register: its store comes
// after the register's.
func (q *qp) lags(n uint16) bool { return -n <= q.sq.ahead }
