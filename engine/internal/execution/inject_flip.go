//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/procmem"
)

// A bit of the payload is flipped where the payload arrives, right after the step that has moved the byte: a
// long transfer goes on later, and its owner may then have taken that memory away.

// moveFaulty moves bytes of j, of which rules of faults may flip one. It returns how much of the budget it
// used, and Failed if some memory could not be reached.
func (sh *Executor) moveFaulty(q *object.QP, j *object.Job, budget int) (used int, v object.Verdict) {
	flips := q.Faults.Acts && q.Faults.Rule.Flip != nil
	sh.FlipMoved(q, j, func() {
		switch {
		case j.Src.Unmapped || j.Dst.Unmapped:
			used, v = sh.moveUnmapped(q, j, budget)
		case flips: // not by workers, which copy later
			used = moveJob(j, budget, nil)
		default:
			used = sh.Move(q, j, budget)
		}
	})
	return used, v
}

// FlipMoved lets move move bytes of j, and then flips a bit of them if the rule of the WQE at the head of q
// says so and the byte is among them.
func (sh *injector) FlipMoved(q *object.QP, j *object.Job, move func()) {
	l := &j.Dst
	moved, current, off, spot := j.Moved, l.Current, l.Off, l.Spot
	move()
	at, mask, ok := sh.flipped(q, j.Total)
	if !ok || at < moved || at >= j.Moved {
		return
	}
	current, l.Current = l.Current, current
	off, l.Off = l.Off, off
	spot, l.Spot = l.Spot, spot
	l.Skip(at - moved)
	if !l.Unmapped {
		l.Next(1)[0] ^= mask
	} else {
		sh.flipUnmapped(l, mask)
	}
	l.Current, l.Off, l.Spot = current, off, spot
	sh.explainFlip(q)
}

// FlipPacket flips a bit of a packet's payload, which begins at byte off of a message of total bytes, if the
// rule of the WQE that was decided last says so and the byte is in the packet.
func (sh *injector) FlipPacket(q *object.QP, payload []byte, off, total uint64) {
	if at, mask, ok := sh.flipped(q, total); ok && at-off < uint64(len(payload)) {
		payload[at-off] ^= mask
		sh.explainFlip(q)
	}
}

// flipped returns which bit of total moved bytes is to be flipped, if one is.
func (sh *injector) flipped(q *object.QP, total uint64) (at uint64, mask byte, ok bool) {
	header := uint64(0)
	if q.Transport == control.QPTypeUD {
		header = object.GRHSize
	}
	if f := q.Faults; f.Acts && f.Rule.Flip != nil && total > header {
		at, mask = f.FlippedBit(total - header)
		return header + at, mask, true
	}
	return 0, 0, false
}

// explainFlip explains, once for each WQE, that a bit was flipped.
func (sh *injector) explainFlip(q *object.QP) {
	if f := q.Faults; !f.Over {
		f.Over = true
		sh.ExplainSent(q, f.Block())
	}
}

// flipUnmapped flips bits of the byte at the position of a list of unmapped memory. If the byte's process has
// gone, nobody can see the byte.
func (sh *mover) flipUnmapped(l *object.List, mask byte) {
	a := &sh.Scratch.Unmapped
	at, vecs, _ := l.Collect(a.To[1:2], 1)
	if at.Process == nil {
		at.Mem[0] ^= mask
		return
	}
	b := a.Between[:1]
	a.From[1], a.To[1] = vecs[0], procmem.VecOf(b)
	if n, _ := at.Process.Read(&a.Seen, a.To[:2], a.From[:2]); n == 1 {
		b[0] ^= mask
		_, _ = at.Process.Write(a.To[:2], a.From[:2])
	}
}
