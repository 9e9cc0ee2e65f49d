package alu

import "math"

// approximateDivision is div.approx and div.full. Results are those of a division that is rounded once;
// GPUs are up to 2 units in the last place away from it. To div.approx, a divisor above 2^126 is infinite.
func approximateDivision(approximate bool, m *modifiers) Function {
	x := extras{ftz: m.take("ftz")}
	t := m.typ("f32")
	const limit = 253 << 23 // 2^126
	return binary(t, func(a, b uint64) uint64 {
		a, b = x.operand(single, a), x.operand(single, b)
		if n := single.number(b); approximate && n.class == finite && b&math.MaxInt32 > limit {
			b = single.infinity(n.negative)
		}
		return x.round32(float64(f32(a)) / float64(f32(b)))
	})
}

// functions32 are what approximations approach.
var functions32 = map[string]func(a float64) float64{
	"rcp":   func(a float64) float64 { return 1 / a },
	"sqrt":  math.Sqrt,
	"rsqrt": func(a float64) float64 { return 1 / math.Sqrt(a) },
	"sin":   math.Sin,
	"cos":   math.Cos,
	"lg2":   math.Log2,
	"ex2":   math.Exp2,
	"tanh":  math.Tanh,
}

// approximate32 returns a function of f32. Its results are the exact ones, rounded once.
func approximate32(base string, x extras) Function {
	do := functions32[base]
	return unary(types["f32"], func(a uint64) uint64 {
		return x.round32(do(float64(f32(x.operand(single, a)))))
	})
}

// round32 returns a result of f32.
func (x extras) round32(v float64) uint64 {
	return x.result(single, single.canonical(double.number(of64(v))), nearest)
}

// roughDouble is rcp.approx.ftz.f64 and rsqrt.approx{.ftz}.f64, whose results have a lower half of zeros.
// With .ftz, they look at the upper half of the operand only.
func roughDouble(base string, x extras) Function {
	if base == "sqrt" || base == "rcp" && !x.ftz {
		return Function{}
	}
	do, nan := functions32[base], double.nan
	if x.ftz {
		nan = 0x7fffffff << 32
	}
	return unary(types["f64"], func(a uint64) uint64 {
		if x.ftz {
			a &^= math.MaxUint32
		}
		if n := double.number(a); n.class == notANumber && !x.ftz {
			return double.round(n, nearest)
		}
		n := double.number(of64(do(f64(x.operand(double, a)))))
		if n.class == notANumber {
			return nan
		}
		return x.result(double, n, nearest) &^ math.MaxUint32
	})
}

// approximation is sin, cos, lg2, ex2 and tanh.
func approximation(base string, m *modifiers) Function {
	approximate := m.take("approx")
	x := extras{ftz: m.take("ftz")}
	allowed := "f32"
	if base == "ex2" || base == "tanh" {
		allowed = "f32 f16 f16x2 bf16 bf16x2"
	}
	t := m.typ(allowed)
	switch {
	case !approximate, base == "tanh" && x.ftz:
		return Function{}
	case t.Width == 32 && !t.Pair:
		return approximate32(base, x)
	case base == "ex2" && x.ftz != (t.Kind == BFloat):
		return Function{}
	}
	do, f := functions32[base], formatOf(t)
	one := unary(t.one(), func(a uint64) uint64 {
		v := of64(do(f64(double.round(f.number(x.operand(f, a)), nearest))))
		return x.result(f, f.canonical(double.number(v)), nearest)
	})
	if t.Pair {
		return pairwise(t, one)
	}
	return one
}
