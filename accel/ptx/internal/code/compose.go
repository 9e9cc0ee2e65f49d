package code

import (
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// relations are the comparisons that have an operation of their own. Those that are missing exchange the
// operands.
var relations = map[string]struct {
	op       Op
	exchange bool
}{
	"eq.u": {Equal, false}, "eq.s": {Equal, false}, "eq.b": {Equal, false},
	"ne.u": {NotEqual, false}, "ne.s": {NotEqual, false}, "ne.b": {NotEqual, false},
	"lt.u": {Below, false}, "le.u": {BelowOrEqual, false},
	"gt.u": {Below, true}, "ge.u": {BelowOrEqual, true},
	"lo.u": {Below, false}, "ls.u": {BelowOrEqual, false},
	"hi.u": {Below, true}, "hs.u": {BelowOrEqual, true},
	"lt.s32": {Less32, false}, "le.s32": {LessOrEqual32, false},
	"gt.s32": {Less32, true}, "ge.s32": {LessOrEqual32, true},
	"lt.s64": {Less64, false}, "le.s64": {LessOrEqual64, false},
	"gt.s64": {Less64, true}, "ge.s64": {LessOrEqual64, true},
}

// combinations combine a comparison with a predicate.
var combinations = map[string]Op{"and": PAnd, "or": POr, "xor": PXor}

// setPredicate is setp: a comparison, its opposite, and their combinations with a predicate.
func (l *lowering) setPredicate() {
	mods := slices.Clone(l.in.Op.Mods)
	combine, combined := Nop, false
	if len(mods) > 1 {
		if combine, combined = combinations[mods[1]]; combined {
			mods = slices.Delete(mods, 1, 2)
		}
	}
	want := 3
	if combined {
		want = 4
	}
	if !l.operands(want, want) {
		return
	}
	f, err := alu.Find("setp", mods)
	if err != nil {
		l.wrong("%v", err)
		return
	}
	t := f.Operands[0]
	o := l.in.Operands
	a, b := l.value(o[1], t, false), l.value(o[2], t, false)
	r := int16(None)
	if combined {
		r = l.predicateOf(o[3])
	}
	results := []syntax.Operand{o[0]}
	if o[0].Kind == syntax.Pair {
		results = o[0].List
	}
	if t.Pair && len(results) == 2 { // of a pair, the second result is that of the upper values
		low := l.comparison(f, mods[0], a, b)
		high := l.comparison(f, mods[0], l.upper(a), l.upper(b))
		l.combineInto(results[0], low, combine, r, false)
		l.combineInto(results[1], high, combine, r, false)
		return
	}
	if len(results) == 1 && !combined {
		l.comparisonInto(l.resultPredicate(results[0]), f, mods[0], a, b)
		return
	}
	// the second result first, in case that the first one is also an operand
	p := l.comparison(f, mods[0], a, b)
	for k := len(results) - 1; k >= 0; k-- {
		l.combineInto(results[k], p, combine, r, k == 1)
	}
}

// upper returns the upper 16 bits of an operand of 32.
func (l *lowering) upper(a Operand) Operand {
	i := inst(Shr)
	i.D, i.A, i.B = l.temporary(), a, l.number(16)
	l.emit(i)
	return i.D
}

// comparison returns a predicate that says whether a relation is true.
func (l *lowering) comparison(f alu.Function, relation string, a, b Operand) int16 {
	p := l.temporaryPredicate()
	l.comparisonInto(p, f, relation, a, b)
	return p
}

// comparisonInto stores in p whether a relation is true.
func (l *lowering) comparisonInto(p int16, f alu.Function, relation string, a, b Operand) {
	t := f.Operands[0]
	i := inst(Test)
	i.P, i.A, i.B, i.Do = p, a, b, f.Do
	kind := ""
	switch {
	case t.Kind == alu.Unsigned:
		kind = "u"
	case t.Kind == alu.Bits:
		kind = "b"
	case t.Kind == alu.Signed && (relation == "eq" || relation == "ne"):
		kind = "s"
	case t.Kind == alu.Signed:
		kind = t.String()
	}
	if n, ok := relations[relation+"."+kind]; ok {
		i.Op, i.Do = n.op, nil
		if n.exchange {
			i.A, i.B = b, a
		}
	}
	l.emit(i)
}

// combineInto stores p, or its opposite, combined with r.
func (l *lowering) combineInto(d syntax.Operand, p int16, combine Op, r int16, opposite bool) {
	if opposite {
		i := inst(PNot)
		i.P, i.Q = l.temporaryPredicate(), p
		l.emit(i)
		p = i.P
	}
	i := inst(PMove)
	i.P, i.Q = l.resultPredicate(d), p
	if combine != Nop {
		i.Op, i.R = combine, r
	}
	l.emit(i)
}

// move is mov: of a value, of a predicate, and between a value and its parts.
func (l *lowering) move() {
	mods := l.in.Op.Mods
	if len(mods) != 1 || !l.operands(2, 2) {
		l.wrong("it has one type and two operands")
		return
	}
	t, ok := alu.ParseType(mods[0])
	d, s := l.in.Operands[0], l.in.Operands[1]
	switch {
	case !ok, t.Width == 8, t.Pair:
		l.wrong("there is no such type here")
	case t.Kind == alu.Pred:
		i := inst(PMove)
		i.Q, i.P = l.predicateOf(s), l.resultPredicate(d)
		l.emit(i)
	case d.Kind == syntax.List:
		l.unpack(t, d.List, s)
	case s.Kind == syntax.List:
		l.pack(t, d, s.List)
	case t.Width == 128:
		l.move128(d, s)
	default:
		i := inst(Move)
		i.A = l.value(s, t, false)
		i.D, _ = l.result(d, t, false)
		l.emit(i)
	}
}

// move128 moves both slots of a value.
func (l *lowering) move128(d, s syntax.Operand) {
	t := typeOf("b128")
	from, to := l.registerOf(s, t, false), l.registerOf(d, t, false)
	if from == nil || to == nil {
		return
	}
	for k := range int32(2) {
		i := inst(Move)
		i.D, i.A = to.slot+k, from.slot+k
		l.emit(i)
	}
}

// part returns the type of one of n parts of a type.
func (l *lowering) part(t alu.Type, n int) (alu.Type, bool) {
	width := t.Width / max(n, 1)
	p, ok := map[int]alu.Type{8: typeOf("b8"), 16: bits16, 32: bits32, 64: bits64}[width]
	if !ok || (n != 2 && n != 4) || t.Kind != alu.Bits {
		l.wrong(".%s does not consist of %d parts", t, n)
		return p, false
	}
	return p, true
}

// unpack stores the parts of a value.
func (l *lowering) unpack(t alu.Type, to []syntax.Operand, s syntax.Operand) {
	part, ok := l.part(t, len(to))
	if !ok {
		return
	}
	var halves [2]Operand
	if t.Width == 128 {
		r := l.registerOf(s, t, false)
		if r == nil {
			return
		}
		halves = [2]Operand{r.slot, r.slot + 1}
	} else {
		halves[0] = l.copied(l.value(s, t, false)) // one of the results can be the operand
	}
	for k, d := range to {
		bit := k * part.Width
		if d.Kind == syntax.Discard {
			continue
		}
		i := inst(Shr)
		i.A, i.B = halves[bit/64], l.number(uint64(bit%64))
		i.D, _ = l.result(d, part, part.Width == 8)
		l.emit(i)
		low := inst(Low)
		low.D, low.A, low.Imm = i.D, i.D, int64(part.Width)
		l.emit(low)
	}
}

// copied returns a copy of an operand.
func (l *lowering) copied(a Operand) Operand {
	i := inst(Move)
	i.D, i.A = l.temporary(), a
	l.emit(i)
	return i.D
}

// pack stores a value that consists of parts.
func (l *lowering) pack(t alu.Type, d syntax.Operand, from []syntax.Operand) {
	part, ok := l.part(t, len(from))
	if !ok {
		return
	}
	to := []int32{l.temporary(), l.temporary()}[:max(1, t.Width/64)]
	for k, o := range from {
		bit := k * part.Width
		v := l.value(o, part, part.Width == 8)
		if bit%64 != 0 {
			shift := inst(Shl)
			shift.D, shift.A, shift.B = l.temporary(), v, l.number(uint64(bit%64))
			l.emit(shift)
			or := inst(Or)
			or.D, or.A, or.B = to[bit/64], to[bit/64], shift.D
			l.emit(or)
			continue
		}
		first := inst(Move)
		first.D, first.A = to[bit/64], v
		l.emit(first)
	}
	slot, _ := l.result(d, t, false)
	for k, s := range to {
		i := inst(Move)
		i.D, i.A = slot+int32(k), s
		l.emit(i)
	}
}

// insertField is bfi.
func (l *lowering) insertField() {
	f, err := alu.Find("bfi", l.in.Op.Mods)
	if err != nil || !l.operands(5, 5) {
		l.wrong("%v", err)
		return
	}
	o, u32 := l.in.Operands, typeOf("u32")
	// position and length in one operand
	field := inst(Func)
	field.D, field.A, field.B = l.temporary(), l.value(o[3], u32, false), l.value(o[4], u32, false)
	field.Do = func(a, b, _ uint64) uint64 { return a&0xff | b&0xff<<8 }
	if f.Result.Width == 64 { // all bits of both count
		field.Do = func(a, b, _ uint64) uint64 { return min(a, 0xff) | min(b, 0xff)<<8 }
	}
	l.emit(field)
	i := inst(Func)
	i.Do, i.A, i.B, i.C = f.Do, l.value(o[1], f.Result, false), l.value(o[2], f.Result, false), field.D
	i.D, _ = l.result(o[0], f.Result, false)
	l.emit(i)
}

// logic3 is lop3, and its predicate, which says whether the result is not 0.
func (l *lowering) logic3() {
	mods := slices.Clone(l.in.Op.Mods)
	combine, combined := Nop, false
	if len(mods) == 2 {
		if combine, combined = map[string]Op{"and": PAnd, "or": POr}[mods[0]]; combined {
			mods = mods[1:]
		}
	}
	want := 5
	if combined {
		want = 6
	}
	if !l.operands(want, want) {
		return
	}
	o := l.in.Operands
	if o[4].Kind != syntax.Number || o[4].Value.Bits > 0xff {
		l.wrong("its table is a number in 0..255")
		return
	}
	f, err := alu.Find("lop3", append(mods, string([]byte{byte(o[4].Value.Bits)})))
	if err != nil {
		l.wrong("%v", err)
		return
	}
	i := inst(Func)
	i.Do = f.Do
	i.A, i.B, i.C = l.value(o[1], bits32, false), l.value(o[2], bits32, false), l.value(o[3], bits32, false)
	d := o[0]
	if !combined {
		i.D, _ = l.result(d, bits32, false)
		l.emit(i)
		return
	}
	if d.Kind != syntax.Pair {
		l.wrong("it has two results")
		return
	}
	q := l.predicateOf(o[5])
	i.D, _ = l.result(d.List[0], bits32, false)
	l.emit(i)
	test := inst(NotEqual)
	test.P, test.A, test.B = l.temporaryPredicate(), i.D, l.number(0)
	l.emit(test)
	l.combineInto(d.List[1], test.P, combine, q, false)
}
