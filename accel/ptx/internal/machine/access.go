package machine

import (
	"math"
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/order"
)

// pollCost is how many instructions an access counts as that lanes may poll with: four of them are a turn,
// because others have to store what is waited for.
const pollCost = quantum / 4

// laneMemory returns the address of the memory of a lane.
func (w *warp) laneMemory(l int) uint64 {
	return w.block.frames + uint64(w.index*Lanes+l)*w.block.grid.frameBytes
}

// load is Load, LoadParam and LoadFrame.
func (w *warp) load(i *code.Inst, mask uint32, base int32) {
	a := &i.More.Access
	var from *vector
	if i.Op == code.Load {
		from = w.source(i.A, base)
	}
	at := w.frames[w.party.frame].memory + i.Imm
	slots := i.More.Slots
	if a.Order != code.Weak {
		w.debt = pollCost
	}
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & (Lanes - 1)
		var address uint64
		switch i.Op {
		case code.Load:
			address = w.reach(i, l, from[l], a)
		case code.LoadParam:
			address = w.block.grid.params + uint64(i.Imm)
		default:
			address = w.laneMemory(l) + uint64(at)
		}
		late := (*order.Lane)(nil)
		if i.Op == code.Load {
			late = w.late(l, address)
		}
		if a.Size == 16 {
			for k, s := range slots {
				where := address + uint64(8*k)
				var v uint64
				if late != nil {
					v = late.Load(where, 8, scopeOf(a), acquires(a.Order))
				} else {
					v = load(where, 8)
				}
				if s >= 0 {
					w.regs[base+s][l] = v
				}
			}
			continue
		}
		for k, s := range slots {
			var v uint64
			where := address + uint64(k*a.Size)
			switch {
			case late != nil:
				v = late.Load(where, a.Size, scopeOf(a), acquires(a.Order))
			case a.Order >= code.Acquire:
				v = loadAcquire(where, a.Size)
			default:
				v = load(where, a.Size)
			}
			if s < 0 {
				continue
			}
			if a.Signed {
				drop, free := 64-8*uint(a.Size), 64-i.More.Widths[k]
				v = uint64(int64(v<<drop)>>drop) << free >> free
			}
			w.regs[base+s][l] = v
		}
	}
}

// store is Store and StoreFrame.
func (w *warp) store(i *code.Inst, mask uint32, base int32) {
	a := &i.More.Access
	var to *vector
	if i.Op == code.Store {
		to = w.source(i.A, base)
	}
	at := w.frames[w.party.frame].memory + i.Imm
	size := min(a.Size, 8)
	w.acted = true
	w.preempt(a)
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & (Lanes - 1)
		var address uint64
		var late *order.Lane
		if i.Op == code.Store {
			address = w.reach(i, l, to[l], a)
			late = w.late(l, address)
		} else {
			address = w.laneMemory(l) + uint64(at)
		}
		for k, s := range i.More.Slots {
			v, where := w.source(s, base)[l], address+uint64(k*size)
			switch {
			case late != nil && releases(a.Order):
				late.Release(where, size, v, scopeOf(a), w.block.grid.launch.Place+int(w.party.pc))
			case late != nil:
				late.Store(where, size, v, w.block.grid.launch.Place+int(w.party.pc))
			case releases(a.Order):
				storeRelease(where, size, v)
			default:
				store(where, size, v)
			}
		}
	}
}

// atomic is Atomic.
func (w *warp) atomic(i *code.Inst, mask uint32, base int32) {
	a := &i.More.Access
	from, b, c := w.source(i.A, base), w.source(i.B, base), w.source(i.C, base)
	d := &w.regs[base+i.D]
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & (Lanes - 1)
		expected := b[l] // d may be b
		address, third := w.reach(i, l, from[l], a), c[l]
		if late := w.late(l, address); late != nil {
			scope, acquire, release := scopeOf(a), acquires(a.Order), releases(a.Order)
			d[l] = late.Atomic(address, a.Size, scope, acquire, release, func() uint64 {
				return w.block.exchange(a, address, expected, third)
			})
		} else {
			d[l] = w.block.exchange(a, address, expected, third)
		}
		if a.Atom != code.CompareAndSwap || d[l] == expected {
			w.acted = true
		} else {
			w.debt = pollCost
		}
	}
}

// exchange executes an atomic operation, and returns the old value.
func (b *block) exchange(a *code.Access, address, second, third uint64) uint64 {
	t := a.Type
	float := a.Float
	if a.Flushed != nil && !b.hasShared(address) {
		float = a.Flushed
	}
	switch {
	case float != nil:
		return update(address, a.Size, func(old uint64) uint64 { return float(old, second, 0) })
	case a.Atom == code.FetchAdd && a.Size == 8:
		return add64(address, second)
	case a.Atom == code.FetchAdd && a.Size == 4:
		return add32(address, second)
	case a.Atom == code.Exchange:
		return swap(address, a.Size, second)
	}
	return update(address, a.Size, func(old uint64) uint64 { return combine(a.Atom, t, old, second, third) })
}

// combine returns what an atomic operation of integers makes of an old value.
func combine(op code.Atom, t alu.Type, old, b, c uint64) uint64 {
	less := old < b
	if t.Kind == alu.Signed {
		drop := 64 - uint(t.Width)
		less = int64(old<<drop) < int64(b<<drop)
	}
	switch op {
	case code.CompareAndSwap:
		if old == b {
			return c
		}
		return old
	case code.FetchAdd:
		return old + b
	case code.FetchMin:
		if less {
			return old
		}
		return b
	case code.FetchMax:
		if less {
			return b
		}
		return old
	case code.FetchAnd:
		return old & b
	case code.FetchOr:
		return old | b
	case code.FetchXor:
		return old ^ b
	case code.FetchInc:
		if old >= b {
			return 0
		}
		return old + 1
	case code.FetchDec:
		if old == 0 || old > b {
			return b
		}
		return old - 1
	}
	return b
}

// address is ToGeneric, FromShared and InSpace.
func (w *warp) address(i *code.Inst, mask uint32, base, pbase int32) {
	a := w.source(i.A, base)
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & (Lanes - 1)
		switch i.Op {
		case code.ToGeneric:
			w.regs[base+i.D][l] = a[l]&math.MaxUint32 + w.block.shared
		case code.FromShared:
			w.regs[base+i.D][l] = (a[l] - w.block.shared) & math.MaxUint32
		default:
			d := &w.preds[pbase+int32(i.P)]
			*d = *d&^(1<<l) | bit(w.inSpace(i.More.Access.Space, l, a[l]))<<l
		}
	}
}

// inSpace reports whether a generic address is in a space. As in PTX, all other addresses are global, and so
// are those of the kernel's parameters.
func (w *warp) inSpace(s code.Space, l int, address uint64) bool {
	shared := w.block.hasShared(address)
	frame := address-w.laneMemory(l) < w.block.grid.frameBytes
	constant := w.prog.isConstant(address)
	switch s {
	case code.Shared:
		return shared
	case code.Frame:
		return frame
	case code.Constant:
		return constant
	case code.Param:
		return address-w.block.grid.params < w.block.grid.paramBytes
	}
	return !shared && !frame && !constant
}

// hasShared reports whether a generic address is in the shared memory of the block.
func (b *block) hasShared(address uint64) bool { return address-b.shared < b.sharedBytes }
