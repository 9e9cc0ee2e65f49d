package machine

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/accel/ptx/internal/code"
)

// control executes what changes where lanes go, and what needs other lanes.
func (w *warp) control(i *code.Inst, mask uint32, base, pbase int32) bool {
	p := &w.party
	switch i.Op {
	case code.BranchIndex:
		w.branchIndex(i, mask, base)
		return false
	case code.Call, code.CallIndirect:
		w.call(i, mask, base)
		return false
	case code.Return:
		w.back(mask)
		return false
	case code.Exit:
		w.end(mask)
		if p.mask != 0 {
			p.pc++
		}
		return false
	case code.Trap:
		panic(w.faultOf(bits.TrailingZeros32(mask), Trap, "trap"))
	case code.Sleep:
		return w.sleep(i, mask, base)
	}
	return w.together(i, mask, base, pbase)
}

// end ends lanes of the party.
func (w *warp) end(lanes uint32) {
	w.live &^= lanes
	w.party.mask &^= lanes
	for f := w.party.frame; f > 0; f = w.frames[f].caller {
		w.frames[f].lanes -= bits.OnesCount32(lanes)
	}
	w.acted = true
	w.block.ended(bits.OnesCount32(lanes))
	w.resume()
}

// branchIndex lets each lane go to the target that its index names.
func (w *warp) branchIndex(i *code.Inst, mask uint32, base int32) {
	a := w.source(i.A, base)
	next := w.party.pc + 1
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		if a[l] >= uint64(len(i.More.Targets)) {
			w.fail(l, fmt.Sprintf("brx.idx: index %d, and the table has %d labels", a[l], len(i.More.Targets)))
		}
		w.split(1<<l, i.More.Targets[a[l]])
	}
	w.party.pc = next
}

// maxDepth is how deep calls can be. The memory of frames may end it before.
const maxDepth = 10_000

// call enters a function.
func (w *warp) call(i *code.Inst, mask uint32, base int32) {
	if rest := w.party.mask &^ mask; rest != 0 {
		w.split(rest, w.party.pc+1)
	}
	var callee *function
	if i.Op == code.Call {
		callee = w.prog.functions[i.Imm]
	} else {
		a := w.source(i.A, base)
		lead := bits.TrailingZeros32(mask)
		n := (a[lead] - functionBase) / functionStep
		if a[lead] < functionBase || n >= uint64(len(w.prog.functions)) || a[lead]%functionStep != 0 {
			w.fail(lead, fmt.Sprintf("call of address 0x%x, at which there is no function", a[lead]))
		}
		callee = w.prog.functions[n]
		for m := mask; m != 0; m &= m - 1 {
			if l := bits.TrailingZeros32(m); a[l] != a[lead] {
				mask &^= 1 << l // it calls later
			}
		}
	}
	w.enter(i, callee, mask)
}

// enter lets lanes of the party begin a function.
func (w *warp) enter(i *code.Inst, callee *function, mask uint32) {
	from := w.party.frame
	caller := w.frames[from]
	lead := bits.TrailingZeros32(mask)
	if callee.Err != nil {
		w.fail(lead, callee.Err.Error())
	}
	if callee.builtin != nil {
		w.callBuiltin(i, callee, mask)
		return
	}
	if callee.Declared {
		w.fail(lead, fmt.Sprintf("call of %s, which no module defines", callee.Name))
	}
	if i.Op == code.CallIndirect {
		if err := callee.takes(i.More); err != nil {
			w.fail(lead, err.Error())
		}
	}
	to := frame{
		fn: callee, caller: from, back: w.party.pc, depth: caller.depth + 1,
		base: caller.base + int32(caller.fn.Slots), pbase: caller.pbase + int32(caller.fn.Predicates),
		memory: caller.memory + roundedFrame(caller.fn.FrameBytes),
	}
	if to.depth > maxDepth || to.memory+callee.FrameBytes > int64(w.block.grid.frameBytes) {
		w.fail(lead, fmt.Sprintf("stack overflow: %s is %d calls deep, and its frame ends at byte %d of %d",
			callee.Name, to.depth, to.memory+callee.FrameBytes, w.block.grid.frameBytes))
	}
	w.room(int(to.base)+callee.Slots, int(to.pbase)+callee.Predicates)
	index := w.frameOf(to)
	w.frames[index].lanes += bits.OnesCount32(mask)
	for k, a := range i.More.Args {
		w.pass(a, callee.Params[k], caller, to, mask)
	}
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		w.pc[l], w.frame[l] = callee.begin, index
	}
	w.party.mask &^= mask
}

// room makes room for slots and predicates.
func (w *warp) room(slots, predicates int) {
	if n := slots - len(w.regs); n > 0 {
		w.regs = append(w.regs, make([]vector, n)...)
	}
	if n := predicates - len(w.preds); n > 0 {
		w.preds = append(w.preds, make([]uint32, n)...)
	}
}

// frameOf returns the index of a frame: one that other lanes are in already, or one that no lane is in.
func (w *warp) frameOf(f frame) int32 {
	empty := -1
	for k := range w.frames {
		g := &w.frames[k]
		switch {
		case k > 0 && g.lanes == 0:
			if empty < 0 {
				empty = k
			}
		case g.fn == f.fn && g.caller == f.caller && g.back == f.back:
			return int32(k)
		}
	}
	if empty >= 0 {
		w.frames[empty] = f
		return int32(empty)
	}
	w.frames = append(w.frames, f)
	return int32(len(w.frames) - 1)
}

// pass copies an argument into the callee's frame.
func (w *warp) pass(a code.Passed, to code.Formal, caller, callee frame, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		memory := w.laneMemory(l)
		switch {
		case a.Size > 0 && to.Slot < 0:
			copyBytes(memory+uint64(callee.memory+to.Offset), memory+uint64(caller.memory+a.Offset), a.Size)
		case a.Size == 0 && to.Slot >= 0:
			drop := 64 - 8*uint(to.Size) // of a number, as many bits count as the parameter has
			w.regs[callee.base+to.Slot][l] = w.source(a.Slot, caller.base)[l] << drop >> drop
		case a.Size == 0:
			store(memory+uint64(callee.memory+to.Offset), int(to.Size), w.source(a.Slot, caller.base)[l])
		default:
			w.regs[callee.base+to.Slot][l] = load(memory+uint64(caller.memory+a.Offset), int(a.Size))
		}
	}
}

// copyBytes copies bytes of frames, which overlap never.
func copyBytes(to, from uint64, n int64) {
	for ; n >= 8; n -= 8 {
		store(to, 8, load(from, 8))
		to, from = to+8, from+8
	}
	for ; n > 0; n-- {
		store(to, 1, load(from, 1))
		to, from = to+1, from+1
	}
}

// back lets lanes of the party return to their caller.
func (w *warp) back(mask uint32) {
	index := w.party.frame
	f := w.frames[index]
	caller := w.frames[f.caller]
	call := &w.prog.insts[f.back]
	for k, r := range call.More.Results {
		from := f.fn.Results[k]
		for m := mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			memory := w.laneMemory(l)
			switch {
			case r.Size > 0 && from.Slot < 0:
				copyBytes(memory+uint64(caller.memory+r.Offset), memory+uint64(f.memory+from.Offset), r.Size)
			case r.Size == 0 && from.Slot >= 0:
				w.regs[caller.base+r.Slot][l] = w.regs[f.base+from.Slot][l]
			case r.Size == 0:
				w.regs[caller.base+r.Slot][l] = load(memory+uint64(f.memory+from.Offset), int(from.Size))
			default:
				store(memory+uint64(caller.memory+r.Offset), int(r.Size), w.regs[f.base+from.Slot][l])
			}
		}
	}
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		w.pc[l], w.frame[l] = f.back+1, f.caller
	}
	w.frames[index].lanes -= bits.OnesCount32(mask)
	w.party.mask &^= mask
	if w.party.mask != 0 {
		w.party.pc++
	}
}
