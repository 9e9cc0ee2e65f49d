package alu

func init() { register(convert, "cvt") }

// convertible are the types of numbers.
const convertible = "u8 s8 " + integers + " " + floats + " e4m3x2 e5m2x2"

// integralRoundings are the modifiers that round to an integer.
var integralRoundings = map[string]rounding{"rni": nearest, "rzi": towardsZero, "rmi": down, "rpi": up}

// convert is cvt.
func convert(_ string, m *modifiers) Function {
	if m.take("pack") {
		return convertPack(m)
	}
	toIntegral := m.oneOf("rni", "rzi", "rmi", "rpi")
	away := toIntegral == "" && m.take("rna")
	r, rounded := rounding(nearestAway), away
	if toIntegral == "" && !away {
		r, rounded = m.rounding()
	}
	var x extras
	x.ftz = m.take("ftz")
	satfinite := m.take("satfinite")
	x.relu = m.take("relu")
	satfinite = satfinite || m.take("satfinite")
	x.sat = m.take("sat")
	to, from := m.typ(convertible+" tf32"), m.typ(convertible)
	if m.err != nil {
		return Function{}
	}
	if (to.Kind == BFloat || from.Kind == BFloat) && (x.sat || min(to.Width, from.Width) == 8) {
		return Function{}
	}
	special := to.Pair || from.Pair || x.relu || satfinite || to.Kind == TF32
	switch {
	case special:
		if toIntegral != "" || !rounded || x.sat || x.ftz {
			return Function{}
		}
		return narrowing(to, from, r, x, satfinite)
	case away:
		return Function{}
	case !to.IsFloat() && !from.IsFloat():
		if toIntegral != "" || rounded || x.ftz {
			return Function{}
		}
		return integerToInteger(to, from, x.sat)
	case !to.IsFloat():
		if toIntegral == "" || x.ftz && from != types["f32"] {
			return Function{}
		}
		return floatToInteger(to, from, integralRoundings[toIntegral], x)
	case !from.IsFloat():
		if !rounded || x.ftz {
			return Function{}
		}
		f := formatOf(to)
		do := quickInteger(to, from, r, x)
		if do == nil {
			do = func(a, _, _ uint64) uint64 { return x.result(f, fromInteger(from, a), r) }
		}
		return Function{to, []Type{from}, do}
	}
	return floatToFloat(to, from, toIntegral, r, rounded, x)
}

// contains reports whether an integer type has all values of another one.
func (t Type) contains(other Type) bool {
	if t.Kind == other.Kind {
		return t.Width >= other.Width
	}
	return t.Kind == Signed && t.Width > other.Width
}

// integerToInteger converts between integers.
func integerToInteger(to, from Type, sat bool) Function {
	if sat && to.contains(from) {
		return Function{}
	}
	do := func(a, _, _ uint64) uint64 { return to.wrap(from.extend(a)) }
	if sat {
		do = func(a, _, _ uint64) uint64 { return toInteger(to, fromInteger(from, a)) }
	}
	return Function{to, []Type{from}, do}
}

// floatToInteger rounds, and keeps to the range of the integer.
func floatToInteger(to, from Type, r rounding, x extras) Function {
	f := formatOf(from)
	// A NaN becomes one of two numbers, which depends on the widths of both types.
	nan := uint64(0)
	if to.Width == 64 || from.Width == 64 {
		nan = 1 << (to.Width - 1)
	}
	exact := func(a, _, _ uint64) uint64 {
		n := integral(f.number(x.operand(f, a)), r)
		if n.class == notANumber {
			return nan
		}
		return toInteger(to, n)
	}
	if do := quickTruncation(to, from, r, x, exact); do != nil {
		return Function{to, []Type{from}, do}
	}
	return Function{to, []Type{from}, exact}
}

// floatToFloat converts between floating-point numbers. If the result has all numbers of the operand, there
// is no rounding.
func floatToFloat(to, from Type, toIntegral string, r rounding, rounded bool, x extras) Function {
	f, g := formatOf(from), formatOf(to)
	same, flushes := to == from, f == single || g == single
	exact := same || g.width > f.width
	switch {
	case toIntegral != "" && (!same || rounded), rounded == exact, x.ftz && !flushes:
		return Function{}
	case x.ftz || toIntegral != "":
	case same && f.width >= 32, f == brain && g == single:
		return copied(to, from, x)
	}
	// The fraction of a NaN is kept where GPUs keep it. To f16, operands are not flushed.
	keep := f == double || g == double
	if g == half {
		x.ftz = false
	}
	do := func(a uint64) uint64 {
		if f == single {
			a = x.operand(f, a)
		}
		n := f.number(a)
		switch {
		case n.class == notANumber && x.ftz && g == double:
			n = f.number(f.nan)
		case n.class == notANumber && !keep:
			n = number{class: notANumber}
		}
		if toIntegral != "" {
			n = integral(n, integralRoundings[toIntegral])
		}
		y := x
		y.ftz = x.ftz && g == single
		return y.result(g, n, r)
	}
	if quick := quickConversion(f, g, r, x, do); quick != nil && toIntegral == "" {
		do = quick
	}
	return Function{to, []Type{from}, func(a, _, _ uint64) uint64 { return do(a) }}
}

// copied converts to a format that begins with the same bits, NaNs too.
func copied(to, from Type, x extras) Function {
	g, shift := formatOf(to), to.Width-from.Width
	return Function{to, []Type{from}, func(a, _, _ uint64) uint64 { return x.clamp(g, a<<shift) }}
}

// narrowing converts to and from the types of machine learning: pairs of 16 and of 8 bits, and tf32. Of two
// operands, the first is the upper value.
func narrowing(to, from Type, r rounding, x extras, satfinite bool) Function {
	f, g := formatOf(from), formatOf(to)
	var allowed bool
	switch {
	case f.width == 8:
		allowed = to == types["f16x2"] && r == nearest && !satfinite
	case g.width == 8:
		allowed = (from == types["f32"] || from == types["f16x2"]) && r == nearest && satfinite
	case g == tensor && r == nearestAway:
		allowed = from == types["f32"] && !x.relu
	case g == tensor:
		allowed = from == types["f32"] && !satfinite
	default:
		allowed = from == types["f32"] && g.width == 16
	}
	if r == up || r == down || (r == nearestAway && g != tensor) {
		allowed = false
	}
	if !allowed {
		return Function{}
	}
	convert := func(v uint64) uint64 {
		n := f.number(v)
		if r == nearestAway && n.class >= infinite { // this one adds a half and drops bits, of all numbers
			v &^= ones(13)
			if satfinite {
				v -= 1 << 13
			}
			return v
		}
		if satfinite && n.class == infinite {
			return x.clamp(g, g.greatest(n.negative))
		}
		if n.class == notANumber {
			n = number{class: notANumber}
		}
		out := g.round(n, r)
		if satfinite && n.class != notANumber && g.number(out).class >= infinite {
			out = g.greatest(n.negative)
		}
		return x.clamp(g, out)
	}
	if quick := quickConversion(f, g, r, x, convert); quick != nil && !satfinite {
		convert = quick
	}
	result := Function{Result: to}
	width := to.one().Width
	switch {
	case to.Pair && !from.Pair:
		result.Operands = []Type{from, from}
		result.Do = func(a, b, _ uint64) uint64 { return convert(a)<<width | convert(b) }
	case to.Pair:
		half := from.one()
		result.Operands = []Type{from}
		result.Do = func(a, _, _ uint64) uint64 {
			return convert(a>>half.Width)<<width | convert(half.wrap(a))
		}
	default:
		result.Operands = []Type{from}
		result.Do = func(a, _, _ uint64) uint64 { return convert(a) }
	}
	return result
}

// convertPack is cvt.pack.sat: both operands as far as they go into the type, the first in the upper half.
// Above them is the low part of the third.
func convertPack(m *modifiers) Function {
	if !m.take("sat") {
		return Function{}
	}
	part, from := m.typ("u8 s8 u16 s16"), m.typ("s32")
	clamp := func(v uint64) uint64 { return toInteger(part, fromInteger(from, v)) }
	pair := func(a, b uint64) uint64 { return clamp(a)<<part.Width | clamp(b) }
	result := Function{Result: types["b32"], Operands: []Type{from, from}}
	if part.Width == 16 {
		result.Do = func(a, b, _ uint64) uint64 { return pair(a, b) }
		return result
	}
	result.Operands = append(result.Operands, m.typ("b32"))
	result.Do = func(a, b, c uint64) uint64 { return c<<16&0xffff0000 | pair(a, b) }
	return result
}
