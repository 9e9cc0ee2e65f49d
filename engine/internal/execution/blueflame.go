//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// HotVisits is for how many visits a register stays hot after a WQE was found in it. While
// the register is hot, a visit reads only the half in which the next WQE is expected. This
// is faster because a visit that also reads the record waits for one more cache line that
// the poster has just written. A post that puts no WQE into the register changes that half
// too, because it writes a doorbell there. The register is then no longer hot.
const HotVisits = 64

// overwriting is how many times a register is read again while a poster is overwriting it: a poster stores 0
// first, and nine stores later the WQE is there. A register that remains 0 announces nothing.
const overwriting = 64

// PollBlueFlame executes q's next WQE if the WQE is in either half of the register, and returns how many
// WQEs it has executed, 0 or 1. It is called when the record announces nothing.
func (sh *Executor) PollBlueFlame(q *object.QP) int {
	if done := sh.PollBlueFlameHalf(q, q.SQ.BlueFlame.Next); done > 0 {
		return done
	}
	return sh.PollBlueFlameHalf(q, q.SQ.BlueFlame.Next^1)
}

// PollBlueFlameHalf executes q's next WQE if the given half of the register holds the whole
// WQE and the WQE can take the fast path. It returns how many WQEs it has executed, 0 or 1.
//
// Observe: BlueFlame register. Published by hostpath.SQ.publishBlueFlame.
func (sh *Executor) PollBlueFlameHalf(q *object.QP, half uint8) (done int) {
	f := q.SQ.BlueFlame
	b, seen := f.Half[half&1], &f.Seen[half&1]
	first := b.Word(wqe.WordOp)
	if first == *seen {
		return 0
	}
	for range overwriting {
		if first != 0 {
			break
		}
		first = b.Word(wqe.WordOp)
	}
	if first == 0 {
		*seen = 0
		return 0 // it cools down with each visit, like a register that has not changed
	}
	f.Hot = 0 // if the register does not hold the next WQE, the record announces something
	h := object.Head{First: wqe.OpWord(first)}
	if h.Place() != object.Place(q.Num, q.SQ.Done) || q.SQ.Ahead >= object.MostAhead ||
		(sh.Several && sh.ShardOfPeer(q) != nil) {
		*seen = first
		return 0
	}
	if !b.Snapshot((*[wqe.BlockSize]byte)(sh.Scratch.Block), first) {
		return 0 // the register is being overwritten; the record will announce the WQE
	}
	*seen = first
	done, sh.Sched.Spent = sh.FastPathFrom(q, shm.RingOf(sh.Scratch.Block), 1, sh.Settings.Slice)
	if done > 0 {
		q.SQ.Ahead++
		f.Next, f.Hot = half^1, HotVisits
	}
	return done
}
