package machine

import (
	"math"
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

const full = math.MaxUint32

// source returns the values of an operand.
func (w *warp) source(x, base int32) *vector {
	if x >= 0 {
		return &w.regs[base+x]
	}
	return &w.prog.consts[^x]
}

// quantum is how many instructions a warp executes before it is the turn of the next.
const quantum = 2000

// step executes some instructions. It ends earlier if no lane can go on.
func (w *warp) step() progress {
	w.seen = [numSeen]extent{} // its owner may have taken it away
	w.polled, w.acted = false, false
	if w.asleep != 0 {
		w.awaken()
	}
	turn, fair := quantum, true
	if w.lanes != nil {
		if w.pause > 0 {
			w.pause--
			return working
		}
		turn, w.pause = w.block.grid.launch.Order.Turn(quantum)
	}
	budget := turn
	for budget > 0 && w.choose(fair) {
		fair = false
		if one := w.party.mask; one&(one-1) == 0 {
			budget = w.alone(budget)
		} else {
			budget = w.execute(budget)
		}
		w.leave()
	}
	switch {
	case budget == turn && w.asleep == 0:
		return stuck
	case budget == turn, w.polled && !w.acted:
		return waiting
	}
	return working
}

// execute executes the party until it splits, or meets others, or ends, or its lanes wait.
func (w *warp) execute(budget int) int {
	insts := w.prog.insts
	p := &w.party
	f := &w.frames[p.frame]
	base, pbase := f.base, f.pbase
	pc := p.pc
	for budget > 0 {
		i := &insts[pc]
		mask := p.mask
		budget--
		if i.Guard != code.None {
			g := w.preds[pbase+int32(i.Guard)]
			if i.Negated {
				g = ^g
			}
			mask &= g
			if mask == 0 {
				pc++
				if pc >= p.join {
					break
				}
				continue
			}
		}
		switch {
		case i.Op <= code.Func:
			d := &w.regs[base+i.D]
			a := w.source(i.A, base)
			b, c := a, a
			if i.B != math.MinInt32 {
				b = w.source(i.B, base)
			}
			if i.C != math.MinInt32 && i.Op != code.Signed {
				c = w.source(i.C, base)
			}
			switch {
			case mask == full && i.Op != code.MulAdd && i.Op != code.MulAdd32 && i.Op != code.Func:
				compute(i, d, a, b)
			case mask == full:
				compute3(i, d, a, b, c)
			default:
				for m := mask; m != 0; m &= m - 1 {
					l := bits.TrailingZeros32(m) & (Lanes - 1)
					d[l] = one(i, a[l], b[l], c[l])
				}
			}
		case i.Op == code.Branch:
			if mask == p.mask {
				pc = int32(i.Imm)
				if pc >= p.join {
					p.pc = pc
					return budget
				}
				continue
			}
			w.split(mask, int32(i.Imm))
			p.pc = pc + 1
			return budget
		case i.Op >= code.Equal && i.Op <= code.Test:
			a, b := w.source(i.A, base), w.source(i.B, base)
			c := a
			if i.Op == code.Test {
				c = w.source(i.C, base)
			}
			yes := compare(i, a, b, c, mask)
			d := &w.preds[pbase+int32(i.P)]
			*d = *d&^mask | yes
		case i.Op >= code.PMove && i.Op <= code.PSet:
			w.predicate(i, pbase, mask)
		default:
			p.pc = pc
			on := w.other(i, mask, base, pbase)
			budget = w.charge(budget)
			if !on {
				return budget
			}
		}
		pc++
		if pc >= p.join {
			break
		}
	}
	p.pc = pc
	return budget
}

// charge takes from a budget what an instruction counts as besides itself.
func (w *warp) charge(budget int) int {
	if w.debt == 0 {
		return budget
	}
	budget -= w.debt
	w.debt, w.polled = 0, true
	return budget
}

// predicate executes an operation of predicates.
func (w *warp) predicate(i *code.Inst, pbase int32, mask uint32) {
	var q, r, v uint32
	if i.Q != code.None {
		q = w.preds[pbase+int32(i.Q)]
	}
	if i.R != code.None {
		r = w.preds[pbase+int32(i.R)]
	}
	switch i.Op {
	case code.PMove:
		v = q
	case code.PNot:
		v = ^q
	case code.PAnd:
		v = q & r
	case code.POr:
		v = q | r
	case code.PXor:
		v = q ^ r
	default:
		v = -bit(i.Imm != 0)
	}
	d := &w.preds[pbase+int32(i.P)]
	*d = *d&^mask | v&mask
}

// other executes an operation that is no arithmetic, and reports whether the party goes on with the next
// instruction. Otherwise the party's place says where it goes on.
func (w *warp) other(i *code.Inst, mask uint32, base, pbase int32) bool {
	switch i.Op {
	case code.Touch:
		return true
	case code.FuncP, code.Select:
		a, b := w.source(i.A, base), w.source(i.B, base)
		d, r := &w.regs[base+i.D], w.preds[pbase+int32(i.R)]
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & (Lanes - 1)
			switch {
			case i.Op == code.FuncP:
				d[l] = i.Do(a[l], b[l], uint64(r>>l&1))
			case r>>l&1 != 0:
				d[l] = a[l]
			default:
				d[l] = b[l]
			}
		}
		return true
	case code.Special:
		d := &w.regs[base+i.D]
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & (Lanes - 1)
			d[l] = w.special(code.SpecialRegister(i.Imm), l)
		}
		return true
	case code.LaneAddress:
		d := &w.regs[base+i.D]
		at := w.frames[w.party.frame].memory + i.Imm
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & (Lanes - 1)
			d[l] = w.laneMemory(l) + uint64(at)
		}
		return true
	case code.ParamAddress:
		d := &w.regs[base+i.D]
		for m := mask; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)&(Lanes-1)] = w.block.grid.params + uint64(i.Imm)
		}
		return true
	case code.Load, code.LoadParam, code.LoadFrame:
		w.load(i, mask, base)
		return true
	case code.Store, code.StoreFrame:
		w.store(i, mask, base)
		return true
	case code.Atomic:
		w.atomic(i, mask, base)
		return true
	case code.Fence:
		w.fence(&i.More.Access, mask)
		return true
	case code.MBarrier:
		w.mbarrier(i, mask, base, pbase)
		return true
	case code.BulkCopy:
		w.bulkCopy(i, mask, base)
		return true
	case code.ToGeneric, code.FromShared, code.InSpace:
		w.address(i, mask, base, pbase)
		return true
	}
	return w.control(i, mask, base, pbase)
}
