package code

import (
	"math"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// operands checks how many operands an instruction has.
func (l *lowering) operands(least, most int) bool {
	n := len(l.in.Operands)
	if n < least || n > most {
		if least == most {
			l.wrong("it has %d operands, not %d", least, n)
		} else {
			l.wrong("it has %d to %d operands, not %d", least, most, n)
		}
		return false
	}
	return true
}

// kindName says what a name means.
func kindName(e any) string {
	switch e := e.(type) {
	case nil:
		return "not declared"
	case *register:
		return "a register of type ." + e.typ.String()
	case *label:
		return "a label"
	case *memory:
		return "a variable"
	case *Variable:
		return "a variable"
	case *Function:
		return "a function"
	}
	return "no value"
}

// fits reports whether a register may hold a value of a type. Wider ones may if an instruction takes its
// low bits.
func fits(r, t alu.Type, wider bool) bool {
	if r.Kind == alu.Pred || t.Kind == alu.Pred {
		return r.Kind == t.Kind
	}
	return r.Width == t.Width || wider && r.Width > t.Width
}

// registerOf returns the register that an operand names.
func (l *lowering) registerOf(o syntax.Operand, t alu.Type, wider bool) *register {
	name := o.Name
	if o.Part != "" {
		name += "." + o.Part
	}
	e := l.find(name)
	r, ok := e.(*register)
	switch {
	case o.Kind != syntax.Name:
		l.wrong("a register is expected, not a %s", o.Kind)
	case !ok:
		l.wrong("%s is %s; a register of type .%s is expected", name, kindName(e), t)
	case !fits(r.typ, t, wider):
		l.wrong("%s is %s; .%s is expected", name, kindName(e), t)
	case o.Value.Bits != 0:
		l.wrong("a number is added to %s, which only addresses may have", name)
	default:
		return r
	}
	return nil
}

// result returns the slot for a result of a type.
func (l *lowering) result(o syntax.Operand, t alu.Type, wider bool) (slot int32, width int) {
	if o.Kind == syntax.Discard {
		return l.temporary(), t.Width
	}
	if r := l.registerOf(o, t, wider); r != nil {
		return r.slot, r.typ.Width
	}
	return 0, t.Width
}

// resultPredicate returns the predicate for a result.
func (l *lowering) resultPredicate(o syntax.Operand) int16 {
	if o.Kind == syntax.Discard {
		return l.temporaryPredicate()
	}
	if r := l.registerOf(o, predicate, false); r != nil {
		return int16(r.slot)
	}
	return None
}

var (
	predicate = typeOf("pred")
	bits16    = typeOf("b16")
	bits32    = typeOf("b32")
	bits64    = typeOf("b64")
)

func typeOf(name string) alu.Type {
	t, ok := alu.ParseType(name)
	if !ok {
		panic("no type " + name)
	}
	return t
}

// value returns an operand of a type: a register, a number, a special register or an address.
func (l *lowering) value(o syntax.Operand, t alu.Type, wider bool) Operand {
	switch o.Kind {
	case syntax.Number:
		return l.immediate(o, t)
	case syntax.Name:
	default:
		l.wrong("a register or a number is expected, not a %s", o.Kind)
		return 0
	}
	if o.Negated {
		l.wrong("only predicates are negated")
		return 0
	}
	name := o.Name
	if o.Part != "" {
		name += "." + o.Part
	}
	switch e := l.find(name).(type) {
	case *memory:
		l.holds(o, t, 64)
		return l.addressOf(e, o.Value.Bits)
	case *Variable:
		bits := 64
		if e.Space == Shared {
			bits = 32
		}
		l.holds(o, t, bits)
		return l.constant(Const{o.Value.Bits, e})
	case *Function:
		l.holds(o, t, 64)
		return l.constant(Const{o.Value.Bits, e})
	case nil:
		if s, width, ok := special(o); ok {
			if o.Value.Bits != 0 {
				l.wrong("a number is added to %s, which only addresses may have", o.Name)
			}
			if width < t.Width {
				l.wrong("%s has %d bits; .%s is expected", o.Name, width, t)
			}
			return l.special(s, t)
		}
	}
	r := l.registerOf(o, t, wider)
	if r == nil {
		return 0
	}
	if r.typ.Width > t.Width {
		return l.low(r.slot, t.Width)
	}
	return r.slot
}

// holds checks that a type has the bits of an address.
func (l *lowering) holds(o syntax.Operand, t alu.Type, bits int) {
	if t.Width < bits {
		l.wrong("the address of %s has %d bits; .%s is expected", o.Name, bits, t)
	}
}

// low returns the low bits of an operand.
func (l *lowering) low(a Operand, width int) Operand {
	i := inst(Low)
	i.D, i.A, i.Imm = l.temporary(), a, int64(width)
	l.emit(i)
	return i.D
}

// addressOf returns the address of memory of the frame, or of the kernel's parameters.
func (l *lowering) addressOf(m *memory, add uint64) Operand {
	i := inst(LaneAddress)
	if m.space == Param {
		i.Op = ParamAddress
	}
	i.D, i.Imm = l.temporary(), m.offset+int64(add)
	l.emit(i)
	return i.D
}

// special returns the value of a special register.
func (l *lowering) special(s SpecialRegister, t alu.Type) Operand {
	i := inst(Special)
	i.D, i.Imm = l.temporary(), int64(s)
	l.emit(i)
	if t.Width < 64 {
		return l.low(i.D, t.Width)
	}
	return i.D
}

// immediate returns the operand of a number.
func (l *lowering) immediate(o syntax.Operand, t alu.Type) Operand {
	c := o.Value
	float := t.IsFloat()
	switch {
	case t.Kind == alu.Pred:
		l.wrong("a predicate is expected, not a number")
	case c.Type == syntax.Double && t.Width == 64, c.Type == syntax.Single && t.Width == 32:
		return l.number(c.Bits)
	case c.Type == syntax.Double && float && t.Width == 32 && !t.Pair:
		return l.number(uint64(math.Float32bits(float32(math.Float64frombits(c.Bits)))))
	case c.Type == syntax.Double || c.Type == syntax.Single:
		l.wrong("a floating-point number is no operand of type .%s", t)
	case float && t.Width >= 32 && !t.Pair && c.Bits != 0:
		l.wrong("an integer is no operand of type .%s", t)
	case t.Width < 64:
		return l.number(c.Bits & (1<<t.Width - 1))
	default:
		return l.number(c.Bits)
	}
	return 0
}

// predicateOf returns an operand that is a predicate.
func (l *lowering) predicateOf(o syntax.Operand) int16 {
	if o.Kind == syntax.Number {
		i := inst(PSet)
		i.P, i.Imm = l.temporaryPredicate(), int64(o.Value.Bits)
		l.emit(i)
		return i.P
	}
	r := l.registerOf(o, predicate, false)
	if r == nil {
		return None
	}
	if !o.Negated {
		return int16(r.slot)
	}
	i := inst(PNot)
	i.P, i.Q = l.temporaryPredicate(), int16(r.slot)
	l.emit(i)
	return i.P
}
