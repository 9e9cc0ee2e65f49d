package alu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// hardValues returns bits of a format at which operations are hard: zeros, the ends of the subnormal and of
// the normal numbers, neighbours of powers of two, infinities and NaNs, with both signs.
func hardValues(f *format) (all []uint64) {
	last := ones(uint64(f.fraction))
	exponents := []int{0, 1, 2, f.bias - f.fraction - 1, f.bias - 1, f.bias, f.bias + f.fraction, 2*f.bias - 1, 2 * f.bias}
	for _, e := range exponents {
		for _, m := range []uint64{0, 1, 2, last/2 + 1, last - 1, last} {
			if e >= 0 {
				all = append(all, uint64(e)<<f.fraction|m)
			}
		}
	}
	all = append(all, f.infinity(false), f.infinity(false)+1, f.nan)
	for _, v := range all {
		all = append(all, v|f.signBit(true))
	}
	return all
}

// each calls a function with all triples of hard values, and with random ones: of any bits, and of exponents
// that are near to each other.
func each(f *format, do func(a, b, c uint64)) {
	hard := hardValues(f)
	for _, a := range hard {
		for _, b := range hard {
			for _, c := range []uint64{hard[0], hard[1], hard[len(hard)/4], a, b ^ f.signBit(true)} {
				do(a, b, c)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, uint64(f.width)))
	some := func() uint64 { return r.Uint64() & ones(uint64(f.width)) }
	near := func() uint64 {
		e := uint64(f.bias-f.fraction-2) + r.Uint64N(uint64(2*f.fraction+4))
		e = min(e, uint64(2*f.bias))
		return some()&(f.signBit(true)|ones(uint64(f.fraction))) | e<<f.fraction
	}
	for range 20_000 {
		do(some(), some(), some())
		do(near(), near(), near())
	}
}

// The processor computes the same as the exact operations.
func TestQuick(t *testing.T) {
	for _, f := range []*format{half, brain, single} {
		for _, x := range []extras{{}, {ftz: true}, {sat: true}, {relu: true}} {
			for base := range arithmetic {
				exact := exactOperation(base, f, nearest, x)
				quick := quickOperation(base, f, nearest, x, exact)
				if base == "div" {
					require.Nil(t, quick)
					continue
				}
				if f == single && x == (extras{}) {
					quick = native(base, types["f32"])
				}
				each(f, func(a, b, c uint64) {
					if got, want := quick(a, b, c), exact(a, b, c); got != want {
						t.Fatalf("%s, %d bits, %+v of %#x, %#x, %#x: %#x, not %#x", base, f.width, x, a, b, c, got, want)
					}
				})
			}
		}
	}
}

func TestQuickConversions(t *testing.T) {
	same := func(name string, a, got, want uint64) {
		if got != want {
			t.Fatalf("%s of %#x: %#x, not %#x", name, a, got, want)
		}
	}
	all := []*format{half, brain, single, double}
	for _, f := range all {
		for _, g := range all {
			exact := func(v uint64) uint64 { return g.round(g.canonical(f.number(v)), nearest) }
			quick := quickConversion(f, g, nearest, extras{}, exact)
			each(f, func(a, _, _ uint64) { same("conversion", a, quick(a), exact(a)) })
		}
	}
	for _, base := range []string{"rcp", "sqrt"} {
		exact := func(a uint64) uint64 {
			n := root(single.number(a))
			if base == "rcp" {
				n = over(normal(false, 0, 0, 1), single.number(a))
			}
			return single.round(single.canonical(n), nearest)
		}
		quick := quickRoot(base, single, nearest, extras{}, exact)
		each(single, func(a, _, _ uint64) { same(base, a, quick(a), exact(a)) })
	}
	for _, name := range []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"} {
		integer := types[name]
		for _, float := range []Type{types["f32"], types["f64"]} {
			f := formatOf(float)
			quick := quickInteger(float, integer, nearest, extras{})
			each(double, func(a, _, _ uint64) {
				a = integer.wrap(a)
				same(name, a, quick(a, 0, 0), f.round(fromInteger(integer, a), nearest))
			})
			exact := func(a, _, _ uint64) uint64 { return toInteger(integer, integral(f.number(a), towardsZero)) }
			truncate := quickTruncation(integer, float, towardsZero, extras{}, exact)
			if integer.Width < 32 {
				require.Nil(t, truncate)
				continue
			}
			each(f, func(a, _, _ uint64) { same("to "+name, a, truncate(a, 0, 0), exact(a, 0, 0)) })
		}
	}
}

func TestIsNaN(t *testing.T) {
	for _, f := range []*format{half, brain, single, double, eight43, eight52} {
		each(f, func(a, _, _ uint64) {
			require.Equal(t, f.number(a).class == notANumber, f.isNaN(a), "%#x of %d bits", a, f.width)
		})
	}
}
