package machine

import (
	"math"
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

// A loner is the lane of a party of one. A lane that posts to a device and waits for it is often alone, so
// it has an executor that asks nothing of a mask.
type loner struct {
	regs   []vector // of its frame
	preds  []uint32 // of its frame
	consts []vector
	lane   int
	mask   uint32
}

// value returns the value of an operand.
func (o *loner) value(x int32) uint64 {
	if x >= 0 {
		return o.regs[x][o.lane&(Lanes-1)]
	}
	return o.consts[^x][0]
}

// set stores the result of an operation.
func (o *loner) set(d int32, v uint64) { o.regs[d][o.lane&(Lanes-1)] = v }

// decide stores the result of a relation.
func (o *loner) decide(p int16, is bool) { o.preds[p] = o.preds[p]&^o.mask | o.mask*bit(is) }

// skips reports whether the guard of an instruction is false.
func (o *loner) skips(i *code.Inst) bool {
	return i.Guard != code.None && (o.preds[i.Guard]&o.mask != 0) == i.Negated
}

// alone executes a party of one lane, as execute does.
func (w *warp) alone(budget int) int {
	insts := w.prog.insts
	p := &w.party
	f := &w.frames[p.frame]
	o := loner{
		regs: w.regs[f.base:], preds: w.preds[f.pbase:], consts: w.prog.consts,
		lane: bits.TrailingZeros32(p.mask), mask: p.mask,
	}
	pc, join := p.pc, p.join
	for budget > 0 && pc < join {
		i := &insts[pc]
		pc++
		budget--
		if o.skips(i) {
			continue
		}
		switch i.Op {
		case code.Move:
			o.set(i.D, o.value(i.A))
		case code.Add:
			o.set(i.D, o.value(i.A)+o.value(i.B))
		case code.Add32:
			o.set(i.D, uint64(uint32(o.value(i.A)+o.value(i.B))))
		case code.And:
			o.set(i.D, o.value(i.A)&o.value(i.B))
		case code.Or:
			o.set(i.D, o.value(i.A)|o.value(i.B))
		case code.Xor:
			o.set(i.D, o.value(i.A)^o.value(i.B))
		case code.Shl:
			o.set(i.D, o.value(i.A)<<o.value(i.B))
		case code.Shl32:
			o.set(i.D, uint64(uint32(o.value(i.A)<<o.value(i.B))))
		case code.Shr:
			o.set(i.D, o.value(i.A)>>o.value(i.B))
		case code.Sub, code.Sub32, code.Mul, code.Mul32, code.MulAdd, code.MulAdd32,
			code.Low, code.Signed, code.Func:
			o.set(i.D, o.arithmetic(i))
		case code.Equal:
			o.decide(i.P, o.value(i.A) == o.value(i.B))
		case code.NotEqual:
			o.decide(i.P, o.value(i.A) != o.value(i.B))
		case code.Below, code.BelowOrEqual, code.Less32, code.LessOrEqual32,
			code.Less64, code.LessOrEqual64:
			o.decide(i.P, relation(i, o.value(i.A), o.value(i.B), 0))
		case code.Branch:
			pc = int32(i.Imm)
		case code.Test:
			o.decide(i.P, o.arithmetic(i) != 0)
		case code.PMove, code.PNot, code.PAnd, code.POr, code.PXor, code.PSet:
			w.predicate(i, f.pbase, o.mask)
		case code.Load:
			p.pc = pc - 1
			if w.lanes == nil && i.More.Plain {
				o.set(i.More.Slots[0], w.fetch(i, o.lane, o.value(i.A)))
			} else {
				w.load(i, o.mask, f.base)
			}
			budget = w.charge(budget)
		default:
			p.pc = pc - 1
			on := w.other(i, o.mask, f.base, f.pbase)
			budget = w.charge(budget)
			if !on {
				return budget
			}
		}
	}
	p.pc = pc
	return budget
}

// fetch returns one value of memory, of which nothing is late.
func (w *warp) fetch(i *code.Inst, lane int, address uint64) uint64 {
	a := &i.More.Access
	address = w.reach(i, lane, address, a)
	if a.Order != code.Weak {
		w.debt = pollCost
	}
	if a.Order >= code.Acquire {
		return loadAcquire(address, a.Size)
	}
	return load(address, a.Size)
}

// arithmetic returns the result of one of the less frequent operations.
func (o *loner) arithmetic(i *code.Inst) uint64 {
	a := o.value(i.A)
	b, c := a, a
	if i.B != math.MinInt32 {
		b = o.value(i.B)
	}
	if i.C != math.MinInt32 && i.Op != code.Signed {
		c = o.value(i.C)
	}
	return one(i, a, b, c)
}
