package alu

import (
	"math"
	"math/bits"
)

func init() {
	register(addition, "add", "sub")
	register(multiplication, "mul", "mad")
	register(multiplication24, "mul24", "mad24")
	register(division, "div", "rem")
	register(minimum, "min", "max")
	register(sign, "abs", "neg")
	register(sad, "sad")
	register(dotProduct, "dp4a", "dp2a")
}

// addition is add and sub.
func addition(base string, m *modifiers) Function {
	if f, ok := floatArithmetic(base, m); ok {
		return f
	}
	sat := m.take("sat")
	allowed := integers
	if base == "add" {
		allowed += " u16x2 s16x2"
	}
	t := m.typ(allowed)
	m.only(sat, "sat", t, "s32")
	if t.Pair {
		return pairwise(t, binary(t.one(), func(a, b uint64) uint64 { return (a + b) & math.MaxUint16 }))
	}
	switch {
	case sat && base == "add":
		return binary(t, addClamped)
	case sat:
		return binary(t, func(a, b uint64) uint64 { return clamp32(int64(int32(a)) - int64(int32(b))) })
	case base == "add":
		return binary(t, func(a, b uint64) uint64 { return t.wrap(a + b) })
	}
	return binary(t, func(a, b uint64) uint64 { return t.wrap(a - b) })
}

// addClamped returns a + b as far as it goes into 32 bits.
func addClamped(a, b uint64) uint64 { return clamp32(int64(int32(a)) + int64(int32(b))) }

func clamp32(v int64) uint64 {
	return uint64(uint32(max(math.MinInt32, min(v, math.MaxInt32))))
}

// high returns the upper half of a product of two values of a type.
func high(t Type, a, b uint64) uint64 {
	if t.Width < 64 {
		return t.wrap(t.extend(a) * t.extend(b) >> t.Width)
	}
	h, _ := bits.Mul64(a, b)
	if t.Kind == Signed {
		h -= uint64(int64(a)>>63)&b + uint64(int64(b)>>63)&a
	}
	return h
}

// multiplication is mul and mad.
func multiplication(base string, m *modifiers) Function {
	if f, ok := floatArithmetic(base, m); ok {
		return f
	}
	half := m.oneOf("lo", "hi", "wide")
	sat := base == "mad" && half == "hi" && m.take("sat")
	allowed := integers
	if half == "wide" {
		allowed = "u16 s16 u32 s32"
	}
	t := m.typ(allowed)
	m.only(sat, "sat", t, "s32")
	result := t
	var mul func(a, b uint64) uint64
	switch half {
	case "":
		return Function{}
	case "wide":
		result.Width *= 2
		mul = func(a, b uint64) uint64 { return t.extend(a) * t.extend(b) }
	case "hi":
		mul = func(a, b uint64) uint64 { return high(t, a, b) }
	default:
		mul = func(a, b uint64) uint64 { return a * b }
	}
	f := Function{Result: result, Operands: []Type{t, t}}
	switch {
	case base == "mul":
		f.Do = func(a, b, _ uint64) uint64 { return result.wrap(mul(a, b)) }
		return f
	case sat:
		f.Do = func(a, b, c uint64) uint64 { return addClamped(mul(a, b), c) }
	default:
		f.Do = func(a, b, c uint64) uint64 { return result.wrap(mul(a, b) + c) }
	}
	f.Operands = append(f.Operands, result)
	return f
}

// multiplication24 is mul24 and mad24, which multiply the low 24 bits.
func multiplication24(base string, m *modifiers) Function {
	half := m.oneOf("lo", "hi")
	sat := base == "mad24" && half == "hi" && m.take("sat")
	t := m.typ("u32 s32")
	m.only(sat, "sat", t, "s32")
	if half == "" {
		return Function{}
	}
	low := Type{t.Kind, 24, false}
	shift := 0
	if half == "hi" {
		shift = 16
	}
	mul := func(a, b uint64) uint64 { return t.wrap(low.extend(a) * low.extend(b) >> shift) }
	switch {
	case base == "mul24":
		return binary(t, mul)
	case sat:
		return ternary(t, func(a, b, c uint64) uint64 { return addClamped(mul(a, b), c) })
	}
	return ternary(t, func(a, b, c uint64) uint64 { return t.wrap(mul(a, b) + c) })
}

// division is div and rem. The result of a division by zero is not specified; on GPUs it is all ones.
func division(base string, m *modifiers) Function {
	if f, ok := floatArithmetic(base, m); ok {
		return f
	}
	t := m.typ(integers)
	if t.Kind == Unsigned {
		return binary(t, func(a, b uint64) uint64 {
			switch {
			case b == 0:
				return t.mask()
			case base == "div":
				return a / b
			}
			return a % b
		})
	}
	return binary(t, func(a, b uint64) uint64 {
		x, y := t.signed(a), t.signed(b)
		switch {
		case y == 0:
			return t.mask()
		case base == "div":
			return t.wrap(uint64(x / y))
		}
		return t.wrap(uint64(x % y))
	})
}

// minimum is min and max.
func minimum(base string, m *modifiers) Function {
	if f, ok := floatMinimum(base, m); ok {
		return f
	}
	relu := m.take("relu")
	t := m.typ(integers + " u16x2 s16x2")
	m.only(relu, "relu", t, "s32 s16x2")
	one := t.one()
	first := func(a, b uint64) bool { return a < b }
	if t.Kind == Signed {
		first = func(a, b uint64) bool { return one.signed(a) < one.signed(b) }
	}
	f := binary(one, func(a, b uint64) uint64 {
		if first(a, b) == (base == "max") {
			a = b
		}
		if relu && one.signed(a) < 0 {
			return 0
		}
		return a
	})
	if t.Pair {
		return pairwise(t, f)
	}
	return f
}

// sign is abs and neg.
func sign(base string, m *modifiers) Function {
	if f, ok := floatSign(base, m); ok {
		return f
	}
	t := m.typ("s16 s32 s64")
	if base == "neg" {
		return unary(t, func(a uint64) uint64 { return t.wrap(-a) })
	}
	return unary(t, func(a uint64) uint64 {
		if t.signed(a) < 0 {
			return t.wrap(-a)
		}
		return a
	})
}

// sad is c + |a - b|.
func sad(_ string, m *modifiers) Function {
	t := m.typ(integers)
	result := t
	result.Kind = Unsigned
	return Function{result, []Type{t, t, result}, func(a, b, c uint64) uint64 {
		less := a < b
		if t.Kind == Signed {
			less = t.signed(a) < t.signed(b)
		}
		if less {
			a, b = b, a
		}
		return t.wrap(c + a - b)
	}}
}

// dotProduct is dp4a and dp2a: the products of some bytes of b with parts of a, added to c.
func dotProduct(base string, m *modifiers) Function {
	parts, width, shift := 4, 8, 0
	if base == "dp2a" {
		parts, width = 2, 16
		switch m.oneOf("lo", "hi") {
		case "hi":
			shift = 16
		case "":
			return Function{}
		}
	}
	ta, tb := m.typ("u32 s32"), m.typ("u32 s32")
	result := Type{max(ta.Kind, tb.Kind), 32, false}
	partA, partB := Type{ta.Kind, width, false}, Type{tb.Kind, 8, false}
	return Function{result, []Type{ta, tb, result}, func(a, b, c uint64) uint64 {
		b >>= shift
		for range parts {
			c += partA.extend(a) * partB.extend(b)
			a >>= width
			b >>= 8
		}
		return result.wrap(c)
	}}
}
