//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A blueFlame is the BlueFlame register of a queue pair that has one of its own. A WQE
// that the device finds in it is executed before the record announces it: one cache line
// moves instead of two, ring and record. The record is the truth and the register only a
// hint: a WQE that was overwritten there before the device saw it, or that is unusual in
// any way, is executed from the ring.
type blueFlame struct {
	half [2]*shm.Block
	seen [2]uint64 // the first word of each half when it was last read
	next uint8     // half into which the next WQE goes: they take turns
	hot  uint8     // visits for which only that half is read
}

// attachBlueFlame gives q a register of the UAR page that begins at page in its bank;
// number counts from 1.
func (q *qp) attachBlueFlame(page uint64, number uint8) {
	at := page + doorbell.BFOffset + uint64(number-1)*doorbell.BFRegSize
	q.sq.blueFlame = &blueFlame{half: [2]*shm.Block{shm.BlockAt(q.sq.registers, at), shm.BlockAt(q.sq.registers, at+doorbell.BFHalf)}}
}

// observe takes the present contents of the register as read: they are WQEs from before
// a reset.
func (f *blueFlame) observe() {
	f.hot = 0
	for i, b := range f.half {
		f.seen[i] = b.Word(0)
	}
}

// hotVisits is how long a register stays hot. After a WQE was found there, so many visits
// read only the half into which the next one goes. A visit that reads the record too waits
// for one more cache line that the poster has just written. Other postings change that
// half as well, and the register is then no longer hot.
const hotVisits = 64

// mostAhead is how many blocks the register may be ahead of the record. Much more could
// not be told from a record that announces too much.
const mostAhead = 1 << 14

// hot reports whether this visit need not read q's record.
func (q *qp) hot() bool {
	if q.sq.blueFlame.hot == 0 || q.job != nil || q.sq.ahead > mostAhead/2 {
		return false
	}
	q.sq.blueFlame.hot--
	return true
}

// pollBlueFlame executes q's next WQE if it is in the register, while the record announces
// nothing.
func (sh *shard) pollBlueFlame(q *qp) int {
	if done := sh.pollBlueFlameHalf(q, q.sq.blueFlame.next); done > 0 {
		return done
	}
	return sh.pollBlueFlameHalf(q, q.sq.blueFlame.next^1)
}

// pollBlueFlameHalf executes q's next WQE if one half of the register holds all of it and
// it can take the fast path.
//
// Observe: BlueFlame register. Published by hostpath.SQ.publishBlueFlame.
func (sh *shard) pollBlueFlameHalf(q *qp, half uint8) (done int) {
	f := q.sq.blueFlame
	b, seen := f.half[half&1], &f.seen[half&1]
	first := b.Word(0)
	if first == *seen {
		return 0
	}
	f.hot = 0 // if this is not the next WQE, the record announces something
	h := head{first: first}
	if h.place() != place(q.num, q.sq.done) || q.sq.ahead >= mostAhead || sh.several && sh.shardOfPeer(q) != nil {
		*seen = first
		return 0
	}
	if !b.Snapshot((*[wqe.BlockSize]byte)(sh.scratch.block), first) {
		return 0 // it is being overwritten; the record will announce it
	}
	*seen = first
	if done, sh.sched.spent = sh.fastPathFrom(q, wqes{mem: sh.scratch.block}, 1, sh.cfg.Slice); done > 0 {
		q.sq.ahead++
		f.next, f.hot = half^1, hotVisits
	}
	return done
}

// lags reports whether a send record that seems n blocks ahead, modulo 2^16, is in fact
// behind by no more than what was executed from the register. Posters store the record
// after the register.
func (q *qp) lags(n uint16) bool { return -n <= q.sq.ahead }
