package machine

import (
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

// numBarriers is how many barriers a block has.
const numBarriers = 16

// A block is a block of threads. One worker executes it.
type block struct {
	grid        *Grid
	index       [3]uint32
	warps       []*warp
	live        int
	shared      uint64 // the address of its shared memory
	sharedBytes uint64
	frames      uint64 // the address of the memory of its lanes
	barriers    [numBarriers]barrier
	now         *warp // that is executed
}

// A barrier is where threads of a block wait for each other.
type barrier struct {
	arrived, expected int // expected is 0 for all threads
	yes               int
	from              map[*warp]uint32 // lanes that have arrived, if some threads are expected
}

// missed returns how many lanes of warps that have arrived will not, because they have ended or never were:
// of a barrier for some threads GPUs count whole warps.
func (r *barrier) missed() (n int) {
	for w, lanes := range r.from {
		n += bits.OnesCount32(^(w.live | lanes))
	}
	return n
}

// ended counts lanes that have ended.
func (b *block) ended(n int) {
	b.live -= n
	for k := range b.barriers {
		b.release(k)
	}
}

// arrive counts lane l of a warp at a barrier.
func (b *block) arrive(w *warp, l, n, expected int, q bool) {
	r := &b.barriers[n]
	if expected > 0 && r.from == nil {
		r.from = map[*warp]uint32{}
	}
	if expected > 0 {
		r.from[w] |= 1 << l
	}
	r.arrived++
	r.expected = expected
	r.yes += int(bit(q))
	b.release(n)
}

// release lets the threads of a barrier go on if all have come.
func (b *block) release(n int) {
	r := &b.barriers[n]
	want := r.expected
	if want == 0 {
		want = b.live
	}
	if r.arrived == 0 || r.arrived+r.missed() < want {
		return
	}
	for _, w := range b.warps {
		for m := w.held; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			a := &w.arrived[l]
			if a.barrier != n {
				continue
			}
			switch a.inst.More.Kind {
			case code.BarrierCount:
				w.give(l, a, uint64(r.yes), false)
			case code.BarrierAnd:
				w.givePredicate(l, a, r.yes == r.arrived)
			case code.BarrierOr:
				w.givePredicate(l, a, r.yes > 0)
			}
			w.held &^= 1 << l
			w.refresh(1 << l)
		}
	}
	*r = barrier{}
}

// givePredicate stores the result of a barrier that is a predicate.
func (w *warp) givePredicate(l int, a *arrival, p bool) {
	d := &w.preds[w.frames[a.frame].pbase+int32(a.inst.P)]
	*d = *d&^(1<<l) | bit(p)<<l
}

// A progress says what the lanes of a block have done in a turn.
type progress int

const (
	stuck   progress = iota // no lane could go on
	waiting                 // lanes have looked for something that others do, or sleep
	working
)

// step lets each warp execute some instructions.
func (b *block) step() progress {
	done := stuck
	for _, w := range b.warps {
		if w.live == 0 {
			continue
		}
		b.now = w
		done = max(done, w.step())
	}
	return done
}
