package code

import (
	"math/bits"
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// carried turns instructions with a carry into additions: add.cc, addc, sub.cc, subc, mad.cc and madc. The
// carry is a slot of the function.
func (l *lowering) carried() {
	base := l.in.Op.Base
	mods := slices.Clone(l.in.Op.Mods)
	half := ""
	if (base == "madc" || base == "mad") && len(mods) > 0 {
		half, mods = mods[0], mods[1:]
	}
	out := len(mods) > 0 && mods[0] == "cc"
	if out {
		mods = mods[1:]
	}
	t, ok := alu.ParseType(slices.Concat(mods, []string{""})[0])
	integer := t.Kind == alu.Unsigned || t.Kind == alu.Signed
	if len(mods) != 1 || !ok || !integer || t.Pair || t.Width < 32 {
		l.wrong("it has one type of 32 or 64 bits")
		return
	}
	o := l.in.Operands
	var a, b Operand
	if base != "madc" && base != "mad" {
		if !l.operands(3, 3) {
			return
		}
		a, b = l.value(o[1], t, false), l.value(o[2], t, false)
	} else {
		if !l.operands(4, 4) {
			return
		}
		f, err := alu.Find("mul", []string{half, t.String()})
		if err != nil || half == "wide" {
			l.wrong("its product is .lo or .hi")
			return
		}
		product := inst(Func)
		product.Do, product.D = f.Do, l.temporary()
		product.A, product.B = l.value(o[1], t, false), l.value(o[2], t, false)
		l.emit(product)
		a, b = product.D, l.value(o[3], t, false)
	}
	in := base[len(base)-1] == 'c' // addc, subc, madc
	l.addCarry(o[0], t, a, b, base == "sub" || base == "subc", in, out)
}

// addCarry emits d = a + b, or d = a - b, with the carry.
func (l *lowering) addCarry(d syntax.Operand, t alu.Type, a, b Operand, subtract, in, out bool) {
	if l.carry == 0 {
		l.carry = l.temporary() + 1
	}
	carry := l.carry - 1
	from := l.number(uint64(boolean(subtract)))
	if in {
		from = carry
	}
	var next int32
	if out {
		i := inst(Func)
		i.Do, i.A, i.B, i.C = carryOut(t.Width, subtract), a, b, from
		next = l.temporary()
		i.D = next
		l.emit(i)
	}
	i := inst(Func)
	i.Do, i.A, i.B, i.C = sum(t.Width, subtract), a, b, from
	i.D, _ = l.result(d, t, false)
	l.emit(i)
	if out {
		move := inst(Move)
		move.D, move.A = carry, next
		l.emit(move)
	}
}

// sum returns a function for a + b + c. A subtraction is a + ^b + c, on GPUs too: its carry is 1 if nothing
// is borrowed.
func sum(width int, subtract bool) func(a, b, c uint64) uint64 {
	mask := ^uint64(0) >> (64 - width)
	if subtract {
		return func(a, b, c uint64) uint64 { return (a + ^b + c) & mask }
	}
	return func(a, b, c uint64) uint64 { return (a + b + c) & mask }
}

// carryOut returns a function for the carry of the same sum.
func carryOut(width int, subtract bool) func(a, b, c uint64) uint64 {
	var flip uint64
	if subtract {
		flip = ^flip
	}
	shift := 64 - width
	return func(a, b, c uint64) uint64 {
		_, carry := bits.Add64(a<<shift, (b^flip)<<shift|(1<<shift-1), c)
		return carry
	}
}

// maybeCarried is add, sub and mad, which may set the carry.
func (l *lowering) maybeCarried() {
	if slices.Contains(l.in.Op.Mods, "cc") {
		l.carried()
		return
	}
	l.arithmetic()
}
