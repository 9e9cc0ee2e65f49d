package code

import (
	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// labelOf returns the label that an operand names.
func (l *lowering) labelOf(o syntax.Operand) *label {
	to, ok := l.find(o.Name).(*label)
	if o.Kind != syntax.Name || !ok {
		l.wrong("%s is %s; a label is expected", o.Name, kindName(l.find(o.Name)))
		return nil
	}
	return to
}

// jumpTo notes that the instruction that is emitted next goes to a label.
func (l *lowering) jumpTo(to *label, target int) {
	if to != nil {
		l.fixups = append(l.fixups, fixup{len(l.fn.Insts), target, to})
	}
}

// branch is bra.
func (l *lowering) branch() {
	if l.operands(1, 1) {
		l.jumpTo(l.labelOf(l.in.Operands[0]), -1)
		l.emit(inst(Branch))
	}
}

// maxTargets is how many targets all brx of a function have at most. Each brx has a list of its own, so that
// many with the same table take much more memory than their text.
const maxTargets = 1 << 20

// branchIndex is brx.idx.
func (l *lowering) branchIndex() {
	if !l.operands(2, 2) {
		return
	}
	table, ok := l.find(l.in.Operands[1].Name).(*syntax.Table)
	if !ok || table.Calls {
		l.wrong("%s is no table of labels", l.in.Operands[1].Name)
		return
	}
	if len(table.Names) > maxTargets-l.targets {
		l.wrong("the targets of the function's tables, counted for each brx, are more than %d; the memory for "+
			"them has to have an end", maxTargets)
		return
	}
	l.targets += len(table.Names)
	i := inst(BranchIndex)
	i.A = l.value(l.in.Operands[0], typeOf("u32"), false)
	i.More = &More{Targets: make([]int32, len(table.Names))}
	for k, name := range table.Names {
		l.jumpTo(l.labelOf(syntax.Operand{At: table.At, Name: name}), k)
	}
	l.emit(i)
}

// plain is an instruction without operands.
func plain(op Op) func(*lowering) {
	return func(l *lowering) {
		if l.operands(0, 0) {
			l.emit(inst(op))
		}
	}
}

// call is call: of a function, or of what is at an address.
func (l *lowering) call() {
	o := l.in.Operands
	var results, args []syntax.Operand
	if len(o) > 0 && o[0].Kind == syntax.Group {
		results, o = o[0].List, o[1:]
	}
	if len(o) == 0 || o[0].Kind != syntax.Name {
		l.wrong("the name of a function is expected")
		return
	}
	target := o[0]
	o = o[1:]
	if len(o) > 0 && o[0].Kind == syntax.Group {
		args, o = o[0].List, o[1:]
	}
	i := inst(Call)
	i.More = &More{}
	switch e := l.find(target.Name).(type) {
	case *Function:
		i.More.Callee = e
		if e.Kernel {
			l.wrong("%s is a kernel", e.Name)
		}
	case *register:
		i.Op, i.A = CallIndirect, l.value(target, bits64, false)
		if len(o) != 1 {
			l.wrong("an indirect call names a prototype or a list of functions")
			return
		}
		if p, ok := l.find(o[0].Name).(*syntax.Prototype); ok {
			i.More.Distinct = p.NoReturn
		}
	default:
		l.wrong("%s is %s; a function is expected", target.Name, kindName(e))
		return
	}
	for _, a := range args {
		i.More.Args = append(i.More.Args, l.passed(a, false))
	}
	for _, r := range results {
		i.More.Results = append(i.More.Results, l.passed(r, true))
	}
	l.emit(i)
}

// passed returns what an argument is, or where a result goes.
func (l *lowering) passed(o syntax.Operand, result bool) Passed {
	if o.Kind == syntax.Name {
		switch e := l.find(o.Name).(type) {
		case *memory:
			if e.space == Frame && e.size == 0 {
				l.wrong("%s has no bytes", o.Name)
				return Passed{}
			}
			if e.space == Frame {
				return Passed{Offset: e.offset, Size: e.size}
			}
		case *register:
			if e.typ.Kind != alu.Pred && e.typ.Width <= 64 {
				return Passed{Slot: e.slot, Width: int64(e.typ.Width / 8)}
			}
		}
	}
	if o.Kind == syntax.Number && !result {
		return Passed{Slot: l.number(o.Value.Bits)}
	}
	l.wrong("%s is neither a parameter nor a register", o.Name)
	return Passed{}
}

// ret is ret, which ends a kernel.
func (l *lowering) ret() {
	if !l.operands(0, 0) {
		return
	}
	if l.fn.Kernel {
		l.emit(inst(Exit))
		return
	}
	l.emit(inst(Return))
}

// sleep is nanosleep.
func (l *lowering) sleep() {
	if l.operands(1, 1) {
		i := inst(Sleep)
		i.A = l.value(l.in.Operands[0], typeOf("u32"), false)
		l.emit(i)
	}
}
