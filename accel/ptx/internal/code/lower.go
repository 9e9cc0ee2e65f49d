package code

import (
	"fmt"
	"math"
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// A lowering turns the statements of a function into instructions.
type lowering struct {
	module     *Module
	fn         *Function
	scope      *scope
	slots      int
	predicates int
	consts     map[Const]int32
	in         *syntax.Instruction // the one that is turned into instructions now
	guard      int16
	fixups     []fixup // in the order of their instructions
	targets    int     // of all brx
	carry      int32   // 1 + the slot of the carry, or 0
	err        error
}

// A fixup is an instruction whose target is a label.
type fixup struct {
	inst   int
	target int // index in More.Targets, or -1 for Imm
	to     *label
}

// maxPredicates is how many predicates a function can have before those that live at different times share
// a bit.
const maxPredicates = math.MaxInt16

// fail notes the first error.
func (l *lowering) fail(at syntax.Position, format string, args ...any) {
	if l.err == nil {
		l.err = &Error{At: at, Why: fmt.Sprintf(format, args...)}
	}
}

// wrong notes an error of the instruction.
func (l *lowering) wrong(format string, args ...any) {
	l.fail(l.in.At, "%s: %s", l.in.Op.Text, fmt.Sprintf(format, args...))
}

// emit appends an instruction with the guard of the one that is turned into instructions.
func (l *lowering) emit(i Inst) {
	i.Guard, i.Negated = l.guard, l.guard != None && l.in.Negated
	for k, x := range []*int32{&i.A, &i.B, &i.C} {
		if *x == unset && roles[i.Op]&(hasA<<k) != 0 {
			*x = l.number(0)
		}
	}
	if i.D == unset && roles[i.Op]&hasD != 0 {
		i.D = l.temporary() // nobody wants the result
	}
	l.fn.Insts = append(l.fn.Insts, i)
	l.fn.Where = append(l.fn.Where, Where{l.in.At, l.in.Source})
}

// unset is an operand that an operation ignores.
const unset = math.MinInt32

// inst returns an instruction without operands and predicates.
func inst(op Op) Inst {
	return Inst{Op: op, D: unset, A: unset, B: unset, C: unset, P: None, Q: None, R: None}
}

// block turns the statements of a block into instructions.
func (l *lowering) block(b *syntax.Block) {
	l.scope = newScope(l.scope)
	defer func() { l.scope = l.scope.outer }()
	for _, s := range b.Statements {
		switch s := s.(type) {
		case *syntax.Label:
			l.declare(s.At, s.Name, &label{at: -1})
		case *syntax.Prototype:
			l.declare(s.At, s.Name, s)
		case *syntax.Table:
			l.declare(s.At, s.Name, s)
		}
	}
	for _, s := range b.Statements {
		if l.err != nil {
			return
		}
		switch s := s.(type) {
		case *syntax.Variable:
			l.variable(s)
		case *syntax.Block:
			l.block(s)
		case *syntax.Label:
			l.scope.names[s.Name].(*label).at = int32(len(l.fn.Insts))
		case *syntax.Instruction:
			l.instruction(s)
		}
	}
}

// variable declares registers or memory.
func (l *lowering) variable(v *syntax.Variable) {
	if v.Space == "reg" {
		l.registers(v)
		return
	}
	size, align, _, err := layout(v)
	if err != nil {
		l.fail(v.At, "%s", err.(*Error).Why)
		return
	}
	switch v.Space {
	case "local", "param":
		l.declare(v.At, v.Name, l.frame(size, align))
	default:
		g, err := l.module.variable(v, l.fn)
		if err == nil && v.Initial != nil {
			err = l.module.initial(g, v)
		}
		if err != nil {
			l.fail(v.At, "%s", err.(*Error).Why)
			return
		}
		l.declare(v.At, v.Name, g)
	}
}

// frame makes room in the frame.
func (l *lowering) frame(size, align int64) *memory {
	m := &memory{Frame, up(l.fn.FrameBytes, align), size}
	l.fn.FrameBytes = m.offset + size
	if l.fn.FrameBytes > maxBytes {
		l.fail(l.fn.At, "the function has more than %d bytes of local memory", int64(maxBytes))
		l.fn.FrameBytes = 0
	}
	l.fn.Align = max(l.fn.Align, align)
	return m
}

// registers declares registers: one, a vector, or a group.
func (l *lowering) registers(v *syntax.Variable) {
	t, ok := alu.ParseType(v.Type)
	if !ok {
		l.fail(v.At, "%s: registers of type .%s are not supported", v.Name, v.Type)
		return
	}
	switch {
	case v.Count >= 0:
		l.scope.groups[v.Name] = &group{t, v.Count, map[int]*register{}}
	case v.Vector > 1:
		for i := range v.Vector {
			l.declare(v.At, v.Name+"."+"xyzw"[i&3:i&3+1], l.newRegister(t))
		}
	default:
		l.declare(v.At, v.Name, l.newRegister(t))
	}
}

// instruction turns an instruction into a few.
func (l *lowering) instruction(i *syntax.Instruction) {
	l.in, l.guard = i, None
	if i.Guard != "" {
		r, ok := l.find(i.Guard).(*register)
		if !ok || r.typ.Kind != alu.Pred {
			l.wrong("its guard %s is no predicate", i.Guard)
			return
		}
		l.guard = int16(r.slot)
	}
	first := len(l.fn.Insts)
	lower, ok := instructions[i.Op.Base]
	switch {
	case !ok:
		lower = (*lowering).arithmetic
	}
	lower(l)
	if l.predicates > maxPredicates {
		l.fail(i.At, "the function has more than %d predicates", maxPredicates)
	}
	l.protectGuard(first)
}

// protectGuard copies the guard of an instruction if the first of several instructions that it became
// changes it.
func (l *lowering) protectGuard(first int) {
	all := l.fn.Insts[first:]
	if l.guard == None || len(all) < 2 {
		return
	}
	if !slices.ContainsFunc(all[:len(all)-1], func(i Inst) bool { return i.P == l.guard }) {
		return
	}
	t := l.temporaryPredicate()
	move := inst(PMove)
	move.P, move.Q, move.Guard = t, l.guard, None
	for k := range all {
		all[k].Guard = t
	}
	l.fn.Insts = append(l.fn.Insts, Inst{})
	copy(l.fn.Insts[first+1:], l.fn.Insts[first:])
	l.fn.Insts[first] = move
	l.fn.Where = append(l.fn.Where, l.fn.Where[first])
	for f := len(l.fixups) - 1; f >= 0 && l.fixups[f].inst >= first; f-- {
		l.fixups[f].inst++
	}
}

// constant returns the operand of a constant.
func (l *lowering) constant(c Const) Operand {
	n, ok := l.consts[c]
	if !ok {
		n = int32(len(l.fn.Consts))
		l.consts[c] = n
		l.fn.Consts = append(l.fn.Consts, c)
	}
	return ^n
}

// number returns the operand of a number.
func (l *lowering) number(v uint64) Operand { return l.constant(Const{Value: v}) }

// An Operand is a slot, or ^ the number of a constant.
type Operand = int32
