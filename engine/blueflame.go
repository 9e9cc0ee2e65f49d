//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A blueFlame is the BlueFlame register of a queue pair that has one of its own. A WQE
// that the device finds in the register is executed before the record announces it. Then
// only one cache line moves between the processors, instead of two (ring and record). Only
// the record is authoritative; the register is a hint. A WQE that was overwritten in the
// register before the device saw it, or that is unusual in any way, is executed from the
// ring.
type blueFlame struct {
	half [2]*shm.Block
	seen [2]uint64 // the first word of each half when it was last read
	next uint8     // half in which the next WQE is expected; posters alternate between the halves
	hot  uint8     // number of further visits that read only that half
}

// attachBlueFlame gives q a BlueFlame register. page is where the register's UAR page begins
// in its bank. number is the number of the register in that page, counted from 1.
func (q *qp) attachBlueFlame(page uint64, number uint8) {
	at := page + doorbell.BFOffset + uint64(number-1)*doorbell.BFRegSize
	q.sq.blueFlame = &blueFlame{half: [2]*shm.Block{shm.BlockAt(q.sq.registers.Bytes(), at), shm.BlockAt(q.sq.registers.Bytes(), at+doorbell.BFHalf)}}
}

// observe marks the present contents of the register as read, because they are WQEs from
// before a reset.
func (f *blueFlame) observe() {
	f.hot = 0
	for i, b := range f.half {
		f.seen[i] = b.Word(wqe.WordOp)
	}
}

// hotVisits is for how many visits a register stays hot after a WQE was found in it. While
// the register is hot, a visit reads only the half in which the next WQE is expected. This
// is faster because a visit that also reads the record waits for one more cache line that
// the poster has just written. A post that puts no WQE into the register changes that half
// too, because it writes a doorbell there. The register is then no longer hot.
const hotVisits = 64

// mostAhead is how many blocks the register may be ahead of the record. If it were much
// further ahead, the device could not tell that from a record that announces too much.
const mostAhead = 1 << 14

// hot reports whether this visit may skip reading q's record.
func (q *qp) hot() bool {
	if q.sq.blueFlame.hot == 0 || q.job != nil || q.sq.ahead > mostAhead/2 {
		return false
	}
	q.sq.blueFlame.hot--
	return true
}

// pollBlueFlame executes q's next WQE if the WQE is in either half of the register. It is
// called when the record announces nothing.
func (sh *executor) pollBlueFlame(q *qp) int {
	if done := sh.pollBlueFlameHalf(q, q.sq.blueFlame.next); done > 0 {
		return done
	}
	return sh.pollBlueFlameHalf(q, q.sq.blueFlame.next^1)
}

// pollBlueFlameHalf executes q's next WQE if the given half of the register holds the whole
// WQE and the WQE can take the fast path.
//
// Observe: BlueFlame register. Published by hostpath.SQ.publishBlueFlame.
func (sh *executor) pollBlueFlameHalf(q *qp, half uint8) (done int) {
	f := q.sq.blueFlame
	b, seen := f.half[half&1], &f.seen[half&1]
	first := b.Word(wqe.WordOp)
	if first == *seen {
		return 0
	}
	f.hot = 0 // if the register does not hold the next WQE, the record announces something
	h := head{first: wqe.OpWord(first)}
	if h.place() != place(q.num, q.sq.done) || q.sq.ahead >= mostAhead || sh.several && sh.shardOfPeer(q) != nil {
		*seen = first
		return 0
	}
	if !b.Snapshot((*[wqe.BlockSize]byte)(sh.scratch.block), first) {
		return 0 // the register is being overwritten; the record will announce the WQE
	}
	*seen = first
	if done, sh.sched.spent = sh.fastPathFrom(q, shm.RingOf(sh.scratch.block), 1, sh.cfg.slice); done > 0 {
		q.sq.ahead++
		f.next, f.hot = half^1, hotVisits
	}
	return done
}

// lags reports whether a send record that seems to announce n new blocks, modulo 2^16, is in
// fact older than the blocks that were executed from the register: it is behind the device by
// at most the number of these blocks. This is possible because posters store the record after
// the register.
func (q *qp) lags(n uint16) bool { return -n <= q.sq.ahead }
