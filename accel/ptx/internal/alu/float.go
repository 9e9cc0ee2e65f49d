package alu

import "math"

// roundings are the modifiers that name a rounding.
var roundings = map[string]rounding{"rn": nearest, "rz": towardsZero, "rm": down, "rp": up}

// rounding takes the modifier of a rounding, and reports whether there is one.
func (m *modifiers) rounding() (rounding, bool) {
	name := m.oneOf("rn", "rz", "rm", "rp")
	return roundings[name], name != ""
}

// peekType returns the last modifier if it is a type.
func (m *modifiers) peekType() Type {
	if len(m.left) == 0 {
		return Type{}
	}
	return types[m.left[len(m.left)-1]]
}

// arithmetic are the exact operations. The third operand is for fma only.
var arithmetic = map[string]func(a, b, c number, r rounding) number{
	"add": func(a, b, _ number, r rounding) number { return plus(a, b, r) },
	"sub": func(a, b, _ number, r rounding) number { return plus(a, b.minus(), r) },
	"mul": func(a, b, _ number, _ rounding) number { return times(a, b) },
	"div": func(a, b, _ number, _ rounding) number { return over(a, b) },
	"fma": func(a, b, c number, r rounding) number { return plus(times(a, b), c, r) },
}

func init() {
	register(func(base string, m *modifiers) Function { f, _ := floatArithmetic(base, m); return f }, "fma")
	register(reciprocal, "rcp", "sqrt", "rsqrt")
	register(approximation, "sin", "cos", "lg2", "ex2", "tanh")
	register(copysign, "copysign")
	register(testProperty, "testp")
}

// extras are modifiers of results.
type extras struct{ ftz, sat, relu, oob bool }

// result returns the bits of a result as the modifiers want it. With ftz, a result that is subnormal before
// it is rounded becomes zero.
func (x extras) result(f *format, n number, r rounding) uint64 {
	if x.ftz && f.tiny(n) {
		n = number{negative: n.negative}
	}
	return x.clamp(f, f.round(n, r))
}

// clamp keeps a result in the range that the modifiers ask for.
func (x extras) clamp(f *format, v uint64) uint64 {
	if !x.sat && !x.relu {
		return v
	}
	n := f.number(v)
	switch {
	case x.sat && (n.class == notANumber || n.negative):
		return 0
	case x.sat && n.exponent >= 0 && n.class != zero:
		return f.round(normal(false, 0, 0, 1), nearest)
	case x.relu && n.negative && n.class != notANumber:
		return 0
	}
	return v
}

// operand returns an operand as the modifiers want it.
func (x extras) operand(f *format, v uint64) uint64 {
	if x.ftz {
		return f.flush(v)
	}
	return v
}

// canonical returns a number without the fraction of a NaN, which only instructions of f64 keep.
func (f *format) canonical(n number) number {
	if n.class == notANumber && f != double {
		return number{class: notANumber}
	}
	return n
}

// floatArithmetic is add, sub, mul, div, fma and mad of floating-point numbers, and reports whether these
// are meant.
func floatArithmetic(base string, m *modifiers) (Function, bool) {
	t := m.peekType()
	if !t.IsFloat() {
		return Function{}, false
	}
	if base == "div" && t.Width == 32 && t.Kind == Float {
		if mode := m.oneOf("full", "approx"); mode != "" {
			return approximateDivision(mode == "approx", m), true
		}
	}
	r, rounded := m.rounding()
	var x extras
	x.oob = base == "fma" && m.take("oob")
	x.ftz = m.take("ftz")
	if base == "fma" {
		x.relu = m.take("relu")
	}
	x.sat = !x.relu && m.take("sat")
	m.typ(floats)
	const narrowTypes = "f16 f16x2 bf16 bf16x2"
	m.only(x.ftz, "ftz", t, "f16 f16x2 f32")
	m.only(x.sat, "sat", t, "f16 f16x2 f32")
	m.only(x.relu, "relu", t, narrowTypes)
	m.only(x.oob, "oob", t, narrowTypes)
	narrow := t.one().Width == 16
	switch {
	case base == "div":
		if narrow || x.sat || !rounded {
			return Function{}, true
		}
	case base == "rem", base == "mad" && narrow, narrow && r != nearest, x.oob && (x.sat || x.ftz):
		return Function{}, true
	case (base == "fma" || base == "mad") && !rounded:
		return Function{}, true
	}
	f := floatFunction(base, t.one(), r, x)
	if t.Pair {
		f = pairwise(t, f)
	}
	return f, true
}

// floatFunction returns an operation for one value. With the usual rounding, the processor computes it for
// f32 and f64.
func floatFunction(base string, t Type, r rounding, x extras) Function {
	if base == "mad" {
		base = "fma"
	}
	operands := []Type{t, t, t}
	if base != "fma" {
		operands = operands[:2]
	}
	if r == nearest && x == (extras{}) && t.Width >= 32 {
		return Function{t, operands, native(base, t)}
	}
	exact := exactOperation(base, formatOf(t), r, x)
	if do := quickOperation(base, formatOf(t), r, x, exact); do != nil {
		return Function{t, operands, do}
	}
	return Function{t, operands, exact}
}

// exactOperation returns an operation for one value.
func exactOperation(base string, format *format, r rounding, x extras) operation {
	compute := arithmetic[base]
	return func(a, b, c uint64) uint64 {
		if x.oob && (a == format.nan || b == format.nan) { // they stand for what is outside of a tensor
			return 0
		}
		a, b, c = x.operand(format, a), x.operand(format, b), x.operand(format, c)
		n := compute(format.number(a), format.number(b), format.number(c), r)
		return x.result(format, format.canonical(n), r)
	}
}

// canonical32 replaces NaNs by the one that GPUs return.
func canonical32(f float32) uint64 {
	if f != f {
		return single.nan
	}
	return of32(f)
}

// native returns an operation of the processor. NaNs of 64 bits are for the exact operations.
func native(base string, t Type) operation {
	if t.Width == 32 {
		switch base {
		case "add":
			return func(a, b, _ uint64) uint64 { return canonical32(f32(a) + f32(b)) }
		case "sub":
			return func(a, b, _ uint64) uint64 { return canonical32(f32(a) - f32(b)) }
		case "mul":
			return func(a, b, _ uint64) uint64 { return canonical32(f32(a) * f32(b)) }
		case "div":
			return func(a, b, _ uint64) uint64 { return canonical32(f32(a) / f32(b)) }
		}
		return func(a, b, c uint64) uint64 { // fma
			return canonical32(float32(oddSum(float64(f32(a))*float64(f32(b)), float64(f32(c)))))
		}
	}
	exact := arithmetic[base]
	var do func(a, b, c float64) float64
	switch base {
	case "add":
		do = func(a, b, _ float64) float64 { return a + b }
	case "sub":
		do = func(a, b, _ float64) float64 { return a - b }
	case "mul":
		do = func(a, b, _ float64) float64 { return a * b }
	case "div":
		do = func(a, b, _ float64) float64 { return a / b }
	default:
		do = math.FMA
	}
	return func(a, b, c uint64) uint64 {
		if v := do(f64(a), f64(b), f64(c)); v == v {
			return of64(v)
		}
		return double.round(exact(double.number(a), double.number(b), double.number(c), nearest), nearest)
	}
}

// reciprocal is rcp, sqrt and rsqrt.
func reciprocal(base string, m *modifiers) Function {
	approximate := m.take("approx")
	r, rounded := m.rounding()
	x := extras{ftz: m.take("ftz")}
	t := m.typ("f32 f64")
	f := formatOf(t)
	switch {
	case approximate == rounded:
		return Function{}
	case approximate && t.Width == 64:
		return roughDouble(base, x)
	case approximate:
		return approximate32(base, x)
	case base == "rsqrt", t.Width == 64 && x.ftz:
		return Function{}
	}
	one := normal(false, 0, 0, 1)
	exact := func(a uint64) uint64 {
		n := f.number(x.operand(f, a))
		if base == "rcp" {
			n = over(one, n)
		} else {
			n = root(n)
		}
		return x.result(f, f.canonical(n), r)
	}
	if do := quickRoot(base, f, r, x, exact); do != nil {
		return unary(t, do)
	}
	return unary(t, exact)
}

// floatSign is abs and neg of floating-point numbers, and reports whether these are meant.
func floatSign(base string, m *modifiers) (Function, bool) {
	t := m.peekType()
	if !t.IsFloat() {
		return Function{}, false
	}
	x := extras{ftz: m.take("ftz")}
	m.typ(floats)
	m.only(x.ftz, "ftz", t, "f16 f16x2 f32")
	f := formatOf(t)
	one := unary(t.one(), func(a uint64) uint64 {
		a = x.operand(f, a)
		switch {
		case f.isNaN(a):
			return f.round(f.canonical(f.number(a)), nearest)
		case base == "neg":
			return a ^ f.signBit(true)
		}
		return a &^ f.signBit(true)
	})
	if t.Pair {
		return pairwise(t, one), true
	}
	return one, true
}

// floatMinimum is min and max of floating-point numbers, and reports whether these are meant.
func floatMinimum(base string, m *modifiers) (Function, bool) {
	t := m.peekType()
	if !t.IsFloat() {
		return Function{}, false
	}
	x := extras{ftz: m.take("ftz")}
	keep := m.take("NaN") // one NaN makes a NaN
	magnitude := m.take("xorsign") && m.take("abs")
	m.typ(floats)
	m.only(x.ftz, "ftz", t, "f16 f16x2 f32")
	m.only(keep || magnitude, "NaN.xorsign.abs", t, "f16 f16x2 bf16 bf16x2 f32")
	f := formatOf(t)
	signs := f.signBit(true)
	one := binary(t.one(), func(a, b uint64) uint64 {
		a, b = x.operand(f, a), x.operand(f, b)
		sign := (a ^ b) & signs
		if magnitude {
			a, b = a&^signs, b&^signs
		}
		na, nb := f.isNaN(a), f.isNaN(b)
		switch {
		case f == double && na && nb:
			return f.round(f.number(b), nearest)
		case na && nb, keep && (na || nb):
			return f.nan
		case na:
			a = b
		case !nb && less(f, b, a) == (base == "min"):
			a = b
		}
		if magnitude {
			return a | sign
		}
		return a
	})
	if t.Pair {
		return pairwise(t, one), true
	}
	return one, true
}

// less reports whether a is before b in the order of numbers, in which -0 is before +0.
func less(f *format, a, b uint64) bool {
	negativeA, negativeB := a&f.signBit(true) != 0, b&f.signBit(true) != 0
	switch {
	case negativeA != negativeB:
		return negativeA
	case negativeA:
		return a > b
	}
	return a < b
}

func copysign(_ string, m *modifiers) Function {
	t := m.typ("f32 f64")
	sign := formatOf(t).signBit(true)
	return binary(t, func(a, b uint64) uint64 { return b&^sign | a&sign })
}

// testProperty is testp.
func testProperty(_ string, m *modifiers) Function {
	property := m.oneOf("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := m.typ("f32 f64")
	if property == "" {
		return Function{}
	}
	f := formatOf(t)
	return Function{types["pred"], []Type{t}, func(a, _, _ uint64) uint64 {
		n := f.number(a)
		switch property {
		case "finite":
			return boolean(n.class < infinite)
		case "infinite":
			return boolean(n.class == infinite)
		case "number":
			return boolean(n.class != notANumber)
		case "notanumber":
			return boolean(n.class == notANumber)
		case "normal": // zero is
			return boolean(n.class < infinite && !f.tiny(n))
		}
		return boolean(f.tiny(n))
	}}
}
