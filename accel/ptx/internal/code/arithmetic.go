package code

import (
	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// direct are the forms that have an operation of their own.
var direct = map[string]Op{
	"add.u64": Add, "add.s64": Add, "add.u32": Add32, "add.s32": Add32,
	"sub.u64": Sub, "sub.s64": Sub, "sub.u32": Sub32, "sub.s32": Sub32,
	"mul.lo.u64": Mul, "mul.lo.s64": Mul, "mul.lo.u32": Mul32, "mul.lo.s32": Mul32,
	"mul.wide.u32": Mul, "mul.wide.u16": Mul,
	"mad.lo.u64": MulAdd, "mad.lo.s64": MulAdd, "mad.lo.u32": MulAdd32, "mad.lo.s32": MulAdd32,
	"mad.wide.u32": MulAdd,
	"and.b16":      And, "and.b32": And, "and.b64": And, "or.b16": Or, "or.b32": Or, "or.b64": Or,
	"xor.b16": Xor, "xor.b32": Xor, "xor.b64": Xor,
	"shl.b64": Shl, "shl.b32": Shl32, "shr.u32": Shr, "shr.u64": Shr, "shr.b32": Shr, "shr.b64": Shr,
}

// arithmetic turns a function of operands into an instruction.
func (l *lowering) arithmetic() {
	f, err := alu.Find(l.in.Op.Base, l.in.Op.Mods)
	if err != nil {
		l.fail(l.in.At, "%s: %v", l.in.Op.Text, err)
		return
	}
	if !l.operands(1+len(f.Operands), 1+len(f.Operands)) {
		return
	}
	l.function(f, l.in.Operands[0], l.in.Operands[1:])
}

// function emits the instruction of a function.
func (l *lowering) function(f alu.Function, d syntax.Operand, operands []syntax.Operand) {
	i := inst(Func)
	i.Do = f.Do
	wider := l.in.Op.Base == "cvt"
	for k, o := range operands {
		t := f.Operands[k]
		if t.Kind == alu.Pred && f.Result.Kind != alu.Pred {
			i.Op, i.R = FuncP, l.predicateOf(o)
			continue
		}
		if t.Kind == alu.Pred { // logic of predicates
			l.predicateLogic()
			return
		}
		l.setOperand(&i, k, l.value(o, t, wider))
	}
	if f.Result.Kind == alu.Pred {
		i.Op, i.P = Test, l.resultPredicate(d)
		l.emit(i)
		return
	}
	if op, ok := direct[l.in.Op.Text]; ok {
		i.Op, i.Do = op, nil
	}
	if l.in.Op.Base == "selp" {
		i.Op, i.Do = Select, nil
	}
	l.store(i, d, f.Result, wider)
}

// setOperand sets operand k.
func (l *lowering) setOperand(i *Inst, k int, v Operand) {
	switch k {
	case 0:
		i.A = v
	case 1:
		i.B = v
	default:
		i.C = v
	}
}

// store emits an instruction whose result goes to a register that may be wider than its type.
func (l *lowering) store(i Inst, d syntax.Operand, t alu.Type, wider bool) {
	wider = wider || t.Width < 16
	slot, width := l.result(d, t, wider)
	i.D = slot
	l.emit(i)
	if width > t.Width && t.Kind == alu.Signed {
		s := inst(Signed)
		s.D, s.A, s.C, s.Imm = slot, slot, int32(width), int64(t.Width)
		l.emit(s)
	}
}

// predicateLogic is and, or, xor and not of predicates.
func (l *lowering) predicateLogic() {
	ops := map[string]Op{"and": PAnd, "or": POr, "xor": PXor, "not": PNot}
	i := inst(ops[l.in.Op.Base])
	i.Q = l.predicateOf(l.in.Operands[1])
	if i.Op != PNot {
		i.R = l.predicateOf(l.in.Operands[2])
	}
	i.P = l.resultPredicate(l.in.Operands[0])
	l.emit(i)
}
