package alu

import "math"

// The exact operations of soft.go are right for every format, rounding and modifier, and take some hundred
// nanoseconds. The processor computes what kernels ask for most, rounded to the nearest number: values become
// float64, which has all numbers of the narrower formats; the result is rounded to odd, so that the second
// rounding, to the format, makes of it what one rounding would; and rare results are left to the exact
// operations. TestQuick compares the two.

// An operation computes the bits of a result.
type operation = func(a, b, c uint64) uint64

// quickOperation returns an operation for f16, bf16 or f32 that is as exact, or nil if there is none.
func quickOperation(base string, f *format, r rounding, x extras, exact operation) operation {
	if r != nearest || x.oob || f.width > 32 || f.width < 16 || f == tensor {
		return nil
	}
	finish := func(v float64, a, b, c uint64) uint64 {
		if y, ok := f.narrow(v, x.ftz); ok {
			return x.clamp(f, y)
		}
		return exact(a, b, c)
	}
	value := f.value
	if x.ftz {
		value = func(v uint64) float64 { return f.value(f.flush(v)) }
	}
	switch base {
	case "add":
		return func(a, b, c uint64) uint64 { return finish(oddSum(value(a), value(b)), a, b, c) }
	case "sub":
		return func(a, b, c uint64) uint64 { return finish(oddSum(value(a), -value(b)), a, b, c) }
	case "mul": // a float64 has room for the product
		return func(a, b, c uint64) uint64 { return finish(value(a)*value(b), a, b, c) }
	case "fma":
		return func(a, b, c uint64) uint64 { return finish(oddSum(value(a)*value(b), value(c)), a, b, c) }
	}
	return nil
}

// oddSum returns a + b, rounded to odd: if the sum is not exact, that of its two neighbours whose last bit is
// set. The sum may not be as large as the greatest float64.
func oddSum(a, b float64) float64 {
	sum := a + b
	rest := sum - a
	lost := (a - (sum - rest)) + (b - rest)
	bits := math.Float64bits(sum)
	if lost == 0 || bits&1 != 0 || sum-sum != 0 {
		return sum
	}
	if (lost > 0) == (sum > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

// value returns the value of bits of f16, bf16 or f32.
func (f *format) value(v uint64) float64 {
	switch f {
	case single:
		return float64(f32(v))
	case brain:
		return float64(f32(v << 16))
	}
	sign, e, m := v>>15&1<<63, v>>10&31, v&0x3ff
	switch e {
	case 0:
		return math.Float64frombits(sign | math.Float64bits(float64(m)*0x1p-24))
	case 31:
		return math.Float64frombits(sign | 0x7ff<<52 | m<<42)
	}
	return math.Float64frombits(sign | (e+1023-15)<<52 | m<<42)
}

// narrow rounds a value to the nearest number of f16, bf16 or f32. It leaves NaNs alone, and of formats of 16
// bits and with ftz, by which subnormal values are zeros, other rare results.
func (f *format) narrow(v float64, ftz bool) (bits uint64, ok bool) {
	wide := math.Float64bits(v)
	sign := wide >> 63 << (f.width - 1)
	magnitude := wide &^ (1 << 63)
	e := int(magnitude>>52) - 1023
	switch {
	case f == single && !ftz && v == v:
		return of32(float32(v)), true
	case magnitude == 0, ftz && e < 1-f.bias:
		return sign, true
	case e < 1-f.bias || e > f.bias:
		return 0, false
	}
	drop := 52 - f.fraction
	magnitude += 1<<(drop-1) - 1 + magnitude>>drop&1
	return sign | (magnitude>>drop - uint64(1023-f.bias)<<f.fraction), true // infinite, if it carries so far
}

// isNaN reports whether bits are a NaN.
func (f *format) isNaN(v uint64) bool {
	magnitude := v & (1<<(f.width-1) - 1)
	if f.finite {
		return magnitude == f.nan
	}
	return magnitude>>f.unused() > f.exponents()<<f.fraction
}

// quickInteger returns a conversion of an integer of at most 64 bits to f32 or f64, rounded to the nearest
// number, or nil.
func quickInteger(to, from Type, r rounding, x extras) operation {
	if r != nearest || x != (extras{}) || to.Width < 32 {
		return nil
	}
	signed, single := from.Kind == Signed, to.Width == 32
	return func(a, _, _ uint64) uint64 {
		a = from.extend(a)
		switch {
		case signed && single:
			return of32(float32(int64(a)))
		case signed:
			return of64(float64(int64(a)))
		case single:
			return of32(float32(a))
		}
		return of64(float64(a))
	}
}

// quickTruncation returns a conversion of f32 or f64 to an integer that drops the fraction, or nil. Values
// for which the integer has no room are left to the exact one.
func quickTruncation(to, from Type, r rounding, x extras, exact operation) operation {
	if r != towardsZero || from.Width < 32 || to.Width < 32 {
		return nil
	}
	least, limit := 0.0, math.Ldexp(1, to.Width)
	if to.Kind == Signed {
		limit /= 2
		least = -limit
	}
	limit = min(limit, 1<<63)
	f := formatOf(from)
	return func(a, b, c uint64) uint64 {
		v := f64(a)
		if f == single {
			v = float64(f32(x.operand(f, a)))
		}
		if v >= least && v < limit {
			return to.wrap(uint64(int64(v)))
		}
		return exact(a, b, c)
	}
}

// A conversion computes bits of one format from those of another.
type conversion = func(v uint64) uint64

// quickConversion returns a conversion between floating-point formats, to the nearest number, or nil. NaNs
// are left to the exact one.
func quickConversion(f, g *format, r rounding, x extras, exact conversion) conversion {
	odd := func(f *format) bool { return f.width < 16 || f == tensor }
	if r != nearest || x.ftz || odd(f) || odd(g) {
		return nil
	}
	return func(v uint64) uint64 {
		wide := f64(v)
		if f != double {
			wide = f.value(v)
		}
		if wide != wide {
			return exact(v)
		}
		if g == double {
			return x.clamp(g, of64(wide))
		}
		if y, ok := g.narrow(wide, false); ok {
			return x.clamp(g, y)
		}
		return exact(v)
	}
}

// quickRoot returns the reciprocal or the square root of f32, rounded to the nearest number, or nil. NaNs
// are left to the exact one.
func quickRoot(base string, f *format, r rounding, x extras, exact conversion) conversion {
	if f != single || r != nearest || x != (extras{}) {
		return nil
	}
	return func(v uint64) uint64 {
		y := 1 / f32(v)
		if base == "sqrt" {
			y = float32(math.Sqrt(float64(f32(v)))) // bits enough for two roundings to be as one
		}
		if y != y {
			return exact(v)
		}
		return of32(y)
	}
}
