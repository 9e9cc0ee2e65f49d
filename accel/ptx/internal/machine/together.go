package machine

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/order"
)

// together executes an operation that lanes execute together: of a warp, or of the block. A lane waits
// until all lanes of its mask have come to such an operation; lanes that have ended count as if they had
// come.
func (w *warp) together(i *code.Inst, mask uint32, base, pbase int32) bool {
	switch i.Op {
	case code.ActiveMask:
		d := &w.regs[base+i.D]
		for m := mask; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)] = uint64(mask)
		}
		return true
	case code.Barrier:
		return w.barrier(i, mask, base, pbase)
	}
	if i.Op == code.WarpBarrier {
		w.drain(order.Block, false, mask)
	}
	names := w.masks(i, base)
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		a := arrival{inst: i, mask: uint32(names[l]) & w.live, frame: w.party.frame, barrier: -1}
		if a.mask>>l&1 == 0 {
			w.fail(l, fmt.Sprintf("the lane is not in its own mask 0x%x", names[l]))
		}
		if i.A != math.MinInt32 {
			a.a = w.source(i.A, base)[l]
		}
		if i.B != math.MinInt32 {
			a.b = w.source(i.B, base)[l]
		}
		if i.C != math.MinInt32 {
			a.c = w.source(i.C, base)[l]
		}
		if i.Q != code.None {
			a.q = w.preds[pbase+int32(i.Q)]>>l&1 != 0
		}
		w.arrived[l] = a
	}
	if names[bits.TrailingZeros32(mask)] == uint64(mask) && w.same(mask) { // as a rule
		w.complete(mask)
		return true
	}
	w.held |= mask
	rest := w.party.mask &^ mask
	w.split(mask, w.party.pc+1)
	w.party.mask = rest
	w.party.pc++
	w.resume()
	return false
}

// masks returns the masks of an operation.
func (w *warp) masks(i *code.Inst, base int32) *vector {
	switch i.Op {
	case code.Shuffle:
		return w.source(i.More.Slots[0], base)
	case code.Match, code.Reduce:
		return w.source(i.B, base)
	}
	return w.source(i.A, base)
}

// same reports whether lanes have come to the same operation with the same mask.
func (w *warp) same(lanes uint32) bool {
	first := &w.arrived[bits.TrailingZeros32(lanes)]
	for m := lanes; m != 0; m &= m - 1 {
		a := &w.arrived[bits.TrailingZeros32(m)]
		if a.inst.Op != first.inst.Op || a.mask != first.mask {
			return false
		}
	}
	return true
}

// resume completes the operations to which all lanes of a mask have come.
func (w *warp) resume() {
	for m := w.held; m != 0; {
		l := bits.TrailingZeros32(m)
		a := &w.arrived[l]
		if a.barrier >= 0 {
			m &= m - 1
			continue
		}
		lanes := a.mask & w.live
		m &^= 1 << l // others that it waits for may wait for fewer
		if lanes&^w.held == 0 && w.waitTogether(lanes) {
			w.complete(lanes)
			w.held &^= lanes
			m &^= lanes
		}
	}
}

// waitTogether reports whether lanes wait at the same operation of the warp.
func (w *warp) waitTogether(lanes uint32) bool {
	for m := lanes; m != 0; m &= m - 1 {
		if w.arrived[bits.TrailingZeros32(m)].barrier >= 0 {
			return false
		}
	}
	first := &w.arrived[bits.TrailingZeros32(lanes)]
	for m := lanes; m != 0; m &= m - 1 {
		a := &w.arrived[bits.TrailingZeros32(m)]
		if a.inst.Op != first.inst.Op || a.mask&w.live != lanes {
			return false
		}
	}
	return true
}

// complete gives lanes the results of the operation to which they have come.
func (w *warp) complete(lanes uint32) {
	for m := lanes; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		a := &w.arrived[l]
		var v uint64
		var p bool
		switch a.inst.Op {
		case code.Shuffle:
			v, p = w.shuffle(l, lanes)
		case code.Vote:
			v, p = w.vote(a.inst.More.Kind, lanes)
		case code.Match:
			v, p = w.match(l, lanes)
		case code.Reduce:
			v = w.reduce(a.inst, lanes)
		case code.Elect:
			v = uint64(bits.TrailingZeros32(lanes))
			p = int(v) == l
		}
		w.give(l, a, v, p)
		if a.inst.Op == code.WarpBarrier {
			w.refresh(1 << l)
		}
	}
}

// give stores the results of an operation.
func (w *warp) give(l int, a *arrival, v uint64, p bool) {
	f := &w.frames[a.frame]
	switch a.inst.Op {
	case code.WarpBarrier:
		return
	case code.Vote:
		if a.inst.More.Kind == code.VoteBallot {
			w.regs[f.base+a.inst.D][l] = v
		}
	default:
		w.regs[f.base+a.inst.D][l] = v
	}
	if a.inst.P != code.None {
		d := &w.preds[f.pbase+int32(a.inst.P)]
		*d = *d&^(1<<l) | bit(p)<<l
	}
}

// shuffle returns the value of another lane, and whether that lane is within the bounds.
func (w *warp) shuffle(l int, lanes uint32) (uint64, bool) {
	a := &w.arrived[l]
	segment, clamp := uint32(a.c>>8&31), uint32(a.c&31)
	lane, b := uint32(l), uint32(a.b&31)
	least := lane & segment
	most := least | clamp&^segment
	var from uint32
	var ok bool
	switch a.inst.More.Kind {
	case code.ShuffleUp:
		from = lane - b
		ok = int32(from) >= int32(most)
	case code.ShuffleDown:
		from = lane + b
		ok = from <= most
	case code.ShuffleButterfly:
		from = lane ^ b
		ok = from <= most
	default:
		from = least | b&^segment
		ok = from <= most
	}
	if !ok {
		from = lane
	}
	if lanes>>from&1 == 0 {
		return 0, ok // undefined
	}
	return w.arrived[from].a, ok
}

// vote returns the votes of lanes.
func (w *warp) vote(kind int, lanes uint32) (v uint64, p bool) {
	var yes uint32
	for m := lanes; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		yes |= bit(w.arrived[l].q) << l
	}
	switch kind {
	case code.VoteAll:
		return 0, yes == lanes
	case code.VoteAny:
		return 0, yes != 0
	case code.VoteUniform:
		return 0, yes == lanes || yes == 0
	}
	return uint64(yes), false
}

// match returns the lanes with the same value, or all lanes if all have the same.
func (w *warp) match(l int, lanes uint32) (uint64, bool) {
	var same uint32
	for m := lanes; m != 0; m &= m - 1 {
		k := bits.TrailingZeros32(m)
		same |= bit(w.arrived[k].a == w.arrived[l].a) << k
	}
	if w.arrived[l].inst.More.Kind == code.MatchAny {
		return uint64(same), true
	}
	if same == lanes {
		return uint64(lanes), true
	}
	return 0, false
}

// reduce returns the values of all lanes, combined.
func (w *warp) reduce(i *code.Inst, lanes uint32) uint64 {
	first := bits.TrailingZeros32(lanes)
	v := w.arrived[first].a
	for m := lanes & (lanes - 1); m != 0; m &= m - 1 {
		x := w.arrived[bits.TrailingZeros32(m)].a
		if i.More.Access.Atom == code.FetchAdd {
			v = uint64(uint32(v + x))
		} else {
			v = combine(i.More.Access.Atom, i.More.Access.Type, v, x, 0)
		}
	}
	return v
}

// barrier lets lanes wait for others of the block.
func (w *warp) barrier(i *code.Inst, mask uint32, base, pbase int32) bool {
	numbers, counts := w.source(i.A, base), w.source(i.B, base)
	next := w.party.pc + 1
	arrive := i.More.Kind == code.BarrierArrive
	w.drain(order.Block, false, mask)
	w.split(mask, next)
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		n := numbers[l]
		if n >= uint64(len(w.block.barriers)) {
			w.fail(l, fmt.Sprintf("barrier %d; there are %d", n, len(w.block.barriers)))
		}
		if most := len(w.block.warps) * Lanes; counts[l]%Lanes != 0 || counts[l] > uint64(most) {
			w.fail(l, fmt.Sprintf("barrier %d for %d threads: not a multiple of 32 up to the %d of the block's warps",
				n, counts[l], most))
		}
		a := arrival{inst: i, frame: w.party.frame, barrier: int(n)}
		if i.Q != code.None {
			a.q = w.preds[pbase+int32(i.Q)]>>l&1 != 0
		}
		w.arrived[l] = a
		if !arrive {
			w.held |= 1 << l
		}
		w.block.arrive(w, l, int(n), int(counts[l]), a.q)
	}
	if w.party.mask != 0 {
		w.party.pc = next
	}
	return false
}
