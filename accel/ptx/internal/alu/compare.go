package alu

func init() {
	register(set, "set")
	register(setPredicate, "setp")
	register(selectByPredicate, "selp")
	register(selectBySign, "slct")
}

// comparisons are the relations. Of floating-point numbers, those that end with u are also true of NaNs.
var comparisons = []string{
	"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
	"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}

// comparison returns a function that says whether a relation is true of two values of a type, or nil if the
// type does not have it.
func comparison(name string, t Type, ftz bool) func(a, b uint64) bool {
	switch {
	case t.IsFloat():
		return floatComparison(name, formatOf(t), ftz)
	case name == "eq":
		return func(a, b uint64) bool { return a == b }
	case name == "ne":
		return func(a, b uint64) bool { return a != b }
	case t.Kind == Signed:
		one := t.one()
		return orderOf(name, func(a, b uint64) bool { return one.signed(a) < one.signed(b) })
	case t.Kind == Unsigned:
		less := func(a, b uint64) bool { return a < b }
		if same, ok := map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[name]; ok {
			name = same
		}
		return orderOf(name, less)
	}
	return nil
}

func orderOf(name string, less func(a, b uint64) bool) func(a, b uint64) bool {
	switch name {
	case "lt":
		return less
	case "le":
		return func(a, b uint64) bool { return !less(b, a) }
	case "gt":
		return func(a, b uint64) bool { return less(b, a) }
	case "ge":
		return func(a, b uint64) bool { return !less(a, b) }
	}
	return nil
}

func floatComparison(name string, f *format, ftz bool) func(a, b uint64) bool {
	// what it says of NaNs, and of numbers
	unordered := false
	if n := len(name); n == 3 && name != "num" && name != "nan" {
		unordered, name = true, name[:2]
	}
	var ordered func(a, b uint64) bool
	before := func(a, b uint64) bool { return less(f, a, b) }
	switch name {
	case "num":
		ordered = func(a, b uint64) bool { return true }
	case "nan":
		unordered = true
		ordered = func(a, b uint64) bool { return false }
	case "eq":
		ordered = func(a, b uint64) bool { return a == b }
	case "ne":
		ordered = func(a, b uint64) bool { return a != b }
	default:
		ordered = orderOf(name, before)
	}
	if ordered == nil {
		return nil
	}
	x := extras{ftz: ftz}
	sign := f.signBit(true)
	return func(a, b uint64) bool {
		a, b = x.operand(f, a), x.operand(f, b)
		if f.isNaN(a) || f.isNaN(b) {
			return unordered
		}
		if a == sign { // both zeros are equal
			a = 0
		}
		if b == sign {
			b = 0
		}
		return ordered(a, b)
	}
}

// compared are the types of operands of set and setp.
const compared = selectable + " f16 f16x2 bf16 bf16x2"

// setPredicate is setp without its second result and without the operation that combines it with a predicate.
// That of a pair compares the low values.
func setPredicate(_ string, m *modifiers) Function {
	name := m.oneOf(comparisons...)
	ftz := m.take("ftz")
	t := m.typ(compared)
	m.only(ftz, "ftz", t, "f16 f16x2 f32")
	do := comparison(name, t.one(), ftz)
	if do == nil {
		return Function{}
	}
	one := t.one()
	return Function{types["pred"], []Type{t, t}, func(a, b, _ uint64) uint64 {
		return boolean(do(one.wrap(a), one.wrap(b)))
	}}
}

// combinations are the operations that combine a comparison with a predicate.
var combinations = map[string]func(a, c uint64) uint64{
	"and": func(a, c uint64) uint64 { return a & c },
	"or":  func(a, c uint64) uint64 { return a | c },
	"xor": func(a, c uint64) uint64 { return a ^ c },
}

// set is set: what is true is 1.0 as a floating-point number, and all ones as an integer.
func set(_ string, m *modifiers) Function {
	name := m.oneOf(comparisons...)
	combine := combinations[m.oneOf("and", "or", "xor")]
	ftz := m.take("ftz")
	result, t := m.typ("u16 s16 u32 s32 f16 f16x2 bf16 bf16x2 f32"), m.typ(compared)
	m.only(ftz, "ftz", t, "f16 f16x2 f32")
	if m.err != nil || t.Pair && result.Width != 32 {
		return Function{}
	}
	yes := result.one().mask()
	switch {
	case result.IsFloat():
		yes = formatOf(result).round(normal(false, 0, 0, 1), nearest)
	case t.Pair:
		yes = 0xffff
	}
	do := comparison(name, t.one(), ftz)
	if do == nil {
		return Function{}
	}
	value := func(a, b, c uint64) uint64 {
		v := boolean(do(a, b))
		if combine != nil {
			v = combine(v, c)
		}
		return v * yes
	}
	f := Function{Result: result, Operands: []Type{t, t}, Do: value}
	if combine != nil {
		f.Operands = append(f.Operands, types["pred"])
	}
	if t.Pair {
		f.Do = func(a, b, c uint64) uint64 {
			return value(a&0xffff, b&0xffff, c) | value(a>>16, b>>16, c)<<16
		}
	}
	return f
}

// selectByPredicate is selp.
func selectByPredicate(_ string, m *modifiers) Function {
	t := m.typ(selectable)
	return Function{t, []Type{t, t, types["pred"]}, func(a, b, c uint64) uint64 {
		if c != 0 {
			return a
		}
		return b
	}}
}

// selectBySign is slct.
func selectBySign(_ string, m *modifiers) Function {
	ftz := m.take("ftz")
	t, by := m.typ(selectable), m.typ("s32 f32")
	m.only(ftz, "ftz", by, "f32")
	x := extras{ftz: ftz}
	return Function{t, []Type{t, t, by}, func(a, b, c uint64) uint64 {
		first := int32(c) >= 0
		if by.Kind == Float {
			first = f32(x.operand(single, c)) >= 0
		}
		if first {
			return a
		}
		return b
	}}
}
