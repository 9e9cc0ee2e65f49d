package alu

import (
	"cmp"
	"math"
	"math/bits"
)

// A format is how a floating-point number is written in bits.
type format struct {
	width    int
	fraction int    // bits of the fraction, without the leading one
	bias     int    // of the exponent
	nan      uint64 // the NaN that instructions return
	finite   bool   // there are no infinities (e4m3): the greatest exponent is that of numbers
}

var (
	half    = &format{16, 10, 15, 0x7fff, false}
	brain   = &format{16, 7, 127, 0x7fff, false}
	single  = &format{32, 23, 127, 0x7fffffff, false}
	double  = &format{64, 52, 1023, 0xfff8000000000000, false}
	tensor  = &format{32, 10, 127, 0x7fffe000, false} // tf32: its 13 low bits are no part of the number
	eight43 = &format{8, 3, 7, 0x7f, true}
	eight52 = &format{8, 2, 15, 0x7f, false}
)

// formatOf returns the format of the values of a type.
func formatOf(t Type) *format {
	switch t.Kind {
	case BFloat:
		return brain
	case TF32:
		return tensor
	case E4M3:
		return eight43
	case E5M2:
		return eight52
	}
	switch t.one().Width {
	case 16:
		return half
	case 32:
		return single
	}
	return double
}

// unused is how many low bits of the width are no part of the number.
func (f *format) unused() int {
	if f == tensor {
		return 13
	}
	return 0
}

func (f *format) exponents() uint64 { return ones(uint64(f.width - 1 - f.fraction - f.unused())) }

// infinity returns the bits of an infinity, or of the NaN if there is none.
func (f *format) infinity(negative bool) uint64 {
	if f.finite {
		return f.nan | f.signBit(negative)
	}
	return f.exponents()<<f.fraction<<f.unused() | f.signBit(negative)
}

// greatest returns the bits of the greatest finite number.
func (f *format) greatest(negative bool) uint64 {
	v := f.exponents()<<f.fraction - 1
	if f.finite {
		v = f.exponents()<<f.fraction | ones(uint64(f.fraction)) - 1
	}
	return v<<f.unused() | f.signBit(negative)
}

func (f *format) signBit(negative bool) uint64 { return boolean(negative) << (f.width - 1) }

// flush replaces a subnormal number by zero with its sign.
func (f *format) flush(v uint64) uint64 {
	if v>>f.unused()>>f.fraction&f.exponents() == 0 {
		return v & f.signBit(true)
	}
	return v
}

// class is what a number is.
type class uint8

const (
	zero class = iota
	finite
	infinite
	notANumber
)

// A number is the exact value of bits, or of a result before it is rounded. A finite one is
// hi:lo * 2^(exponent-126), with the first one in bit 126. Bit 0 is also set if anything below it was lost.
// hi of a NaN is its fraction, from bit 63 downwards, or 0 for the NaN that the format returns.
type number struct {
	class    class
	negative bool
	exponent int
	hi, lo   uint64
}

// number returns the value of bits.
func (f *format) number(v uint64) number {
	n := number{negative: v>>(f.width-1)&1 != 0}
	v >>= f.unused()
	e, m := v>>f.fraction&f.exponents(), v&ones(uint64(f.fraction))
	last := e == f.exponents()
	switch {
	case last && f.finite && m == ones(uint64(f.fraction)), last && !f.finite && m != 0:
		n.class, n.hi = notANumber, 1<<63|m<<(64-f.fraction)
	case last && !f.finite:
		n.class = infinite
	case e == 0 && m == 0:
		n.class = zero
	case e == 0:
		return normal(n.negative, 1-f.bias-f.fraction, 0, m)
	default:
		return normal(n.negative, int(e)-f.bias-f.fraction, 0, m|1<<f.fraction)
	}
	return n
}

// normal returns the number hi:lo * 2^exponent. Bit 127 must be 0.
func normal(negative bool, exponent int, hi, lo uint64) number {
	n := number{class: finite, negative: negative, exponent: exponent + 126, hi: hi, lo: lo}
	if hi == 0 && lo == 0 {
		return number{negative: negative}
	}
	if n.hi == 0 {
		n.hi, n.lo = n.lo, 0
		n.exponent -= 64
	}
	shift := bits.LeadingZeros64(n.hi) - 1
	if shift < 0 { // the first one of lo was in bit 63
		n.lo = n.hi<<63 | n.lo>>1
		n.hi >>= 1
		n.exponent++
		return n
	}
	n.hi = n.hi<<shift | n.lo>>(64-shift)
	n.lo <<= shift
	n.exponent -= shift
	return n
}

// right returns hi:lo shifted to the right; what is lost sets bit 0.
func right(hi, lo uint64, n int) (uint64, uint64) {
	switch {
	case n <= 0:
		return hi, lo
	case n >= 128:
		return 0, boolean(hi|lo != 0)
	case n >= 64:
		lost := lo | hi<<(128-n)
		return 0, hi>>(n-64) | boolean(lost != 0)
	}
	lost := lo << (64 - n)
	return hi >> n, hi<<(64-n) | lo>>n | boolean(lost != 0)
}

// rounding is a direction of rounding.
type rounding uint8

const (
	nearest     rounding = iota // to even
	nearestAway                 // a half goes away from zero
	towardsZero
	down
	up
)

// upwards reports whether a magnitude is rounded up to the next, given its last bit, and the bits below it:
// the first, and whether there are others.
func (r rounding) upwards(negative, last, first, others bool) bool {
	switch r {
	case nearest:
		return first && (others || last)
	case nearestAway:
		return first
	case down:
		return negative && (first || others)
	case up:
		return !negative && (first || others)
	}
	return false
}

// round returns the bits of a number in a format.
func (f *format) round(n number, r rounding) uint64 {
	s := f.signBit(n.negative)
	switch n.class {
	case notANumber:
		if n.hi == 0 {
			return f.nan
		}
		return (f.exponents()<<f.fraction|n.hi>>(64-f.fraction))<<f.unused() | s
	case infinite:
		return f.infinity(n.negative)
	case zero:
		return s
	}
	least := 1 - f.bias
	drop := 126 - f.fraction
	if n.exponent < least {
		drop += least - n.exponent
	}
	kept := n.integer(drop, r)
	v := kept
	if n.exponent >= least {
		v += uint64(n.exponent-least) << f.fraction // the leading one makes the exponent one greater
	}
	most := f.greatest(false) >> f.unused()
	if v > most || n.exponent > int(f.exponents()) {
		inwards := r == towardsZero || (r == down && !n.negative) || (r == up && n.negative)
		if inwards {
			return f.greatest(n.negative)
		}
		return f.infinity(n.negative)
	}
	return v<<f.unused() | s
}

// integer returns the mantissa without its low bits, rounded. At least 63 bits are dropped.
func (n number) integer(drop int, r rounding) uint64 {
	kept := n.above(drop)
	if r.upwards(n.negative, kept&1 != 0, n.bit(drop-1), n.below(drop-1)) {
		kept++
	}
	return kept
}

// above returns the mantissa without its low bits.
func (n number) above(drop int) uint64 {
	switch {
	case drop >= 128:
		return 0
	case drop >= 64:
		return n.hi >> (drop - 64)
	}
	return n.hi<<(64-drop) | n.lo>>drop
}

// bit returns a bit of the mantissa.
func (n number) bit(i int) bool {
	switch {
	case i >= 128 || i < 0:
		return false
	case i >= 64:
		return n.hi>>(i-64)&1 != 0
	}
	return n.lo>>i&1 != 0
}

// below reports whether any of the low bits of the mantissa is set.
func (n number) below(count int) bool {
	switch {
	case count >= 128:
		return true
	case count > 64:
		return n.lo != 0 || n.hi&ones(uint64(count-64)) != 0
	case count <= 0:
		return false
	}
	return n.lo&ones(uint64(count)) != 0
}

// isNaN reports whether any operand is a NaN.
func isNaN(a, b number) bool { return a.class == notANumber || b.class == notANumber }

// nanOf returns the NaN among two operands, b if both are.
func nanOf(a, b number) number {
	if b.class == notANumber {
		return b
	}
	return a
}

// minus returns -a. The sign of a NaN stays.
func (n number) minus() number {
	n.negative = n.negative != (n.class != notANumber)
	return n
}

// plus returns a + b.
func plus(a, b number, r rounding) number {
	switch {
	case isNaN(a, b):
		return nanOf(a, b)
	case a.class == infinite && b.class == infinite && a.negative != b.negative:
		return number{class: notANumber}
	case a.class == infinite, b.class == zero && a.class != zero:
		return a
	case b.class == infinite, a.class == zero && b.class != zero:
		return b
	case a.class == zero && a.negative == b.negative:
		return a
	case a.class == zero:
		return number{negative: r == down}
	}
	if cmp.Or(cmp.Compare(a.exponent, b.exponent), cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo)) < 0 {
		a, b = b, a
	}
	hi, lo := right(b.hi, b.lo, a.exponent-b.exponent)
	var carry uint64
	if a.negative == b.negative {
		lo, carry = bits.Add64(a.lo, lo, 0)
		hi, _ = bits.Add64(a.hi, hi, carry)
		if hi>>63 != 0 {
			hi, lo = right(hi, lo, 1)
			a.exponent++
		}
	} else {
		lo, carry = bits.Sub64(a.lo, lo, 0)
		hi, _ = bits.Sub64(a.hi, hi, carry)
		if hi == 0 && lo == 0 {
			return number{negative: r == down}
		}
	}
	return normal(a.negative, a.exponent-126, hi, lo)
}

// times returns a * b, exactly: both have at most 53 bits.
func times(a, b number) number {
	negative := a.negative != b.negative
	switch {
	case isNaN(a, b):
		return nanOf(a, b)
	case a.class == infinite && b.class == zero, a.class == zero && b.class == infinite:
		return number{class: notANumber}
	case a.class == infinite || b.class == infinite:
		return number{class: infinite, negative: negative}
	case a.class == zero || b.class == zero:
		return number{negative: negative}
	}
	hi, lo := bits.Mul64(a.hi, b.hi) // 2^62 <= a.hi, b.hi < 2^63
	return normal(negative, a.exponent+b.exponent-124, hi, lo)
}

// over returns a / b, with more bits than any format has.
func over(a, b number) number {
	negative := a.negative != b.negative
	switch {
	case isNaN(a, b):
		return nanOf(b, a)
	case a.class == infinite && b.class == infinite, a.class == zero && b.class == zero:
		return number{class: notANumber}
	case a.class == infinite || b.class == zero:
		return number{class: infinite, negative: negative}
	case a.class == zero || b.class == infinite:
		return number{negative: negative}
	}
	// a.hi / 2 < b.hi, so the quotient of a.hi/2:0 has 64 bits
	quotient, rest := bits.Div64(a.hi>>1, a.hi<<63, b.hi)
	return normal(negative, a.exponent-b.exponent-63, 0, quotient).sticky(rest != 0)
}

// sticky notes that something below the mantissa was lost.
func (n number) sticky(lost bool) number {
	n.lo |= boolean(lost)
	return n
}

// root returns the square root of a, with more bits than any format has.
func root(a number) number {
	switch {
	case a.class == zero || a.class == notANumber, a.class == infinite && !a.negative:
		return a
	case a.negative:
		return number{class: notANumber}
	}
	// a is hi * 2^(exponent-62); its exponent has to be even
	exponent := a.exponent - 62
	hi, lo := a.hi, uint64(0)
	if exponent&1 != 0 {
		hi, exponent = hi<<1, exponent-1
	}
	// the root of hi * 2^64, by its bits
	var r uint64
	for bit := uint64(1) << 63; bit != 0; bit >>= 1 {
		if h, l := bits.Mul64(r|bit, r|bit); h < hi || h == hi && l <= lo {
			r |= bit
		}
	}
	h, l := bits.Mul64(r, r)
	return normal(false, exponent/2-32, 0, r).sticky(h != hi || l != lo)
}

// tiny reports whether a number is subnormal in a format before it is rounded.
func (f *format) tiny(n number) bool { return n.class == finite && n.exponent < 1-f.bias }

// integral returns a rounded to an integer.
func integral(a number, r rounding) number {
	if a.class != finite || a.exponent >= 126 {
		return a
	}
	if a.exponent < -1 {
		if r.upwards(a.negative, false, false, true) {
			return normal(a.negative, 0, 0, 1)
		}
		return number{negative: a.negative}
	}
	drop := 126 - a.exponent
	if drop < 64 { // every format has at most 53 bits
		return a
	}
	return normal(a.negative, 0, 0, a.integer(drop, r))
}

// fromInteger returns the number that an integer is.
func fromInteger(t Type, v uint64) number {
	if t.Kind == Signed && t.signed(v) < 0 {
		return normal(true, 0, 0, -t.extend(v))
	}
	return normal(false, 0, 0, t.wrap(v))
}

// toInteger returns an integer that is at most as far from a as the type allows.
func toInteger(t Type, a number) uint64 {
	least, most := uint64(0), t.mask()
	if t.Kind == Signed {
		least, most = uint64(1)<<(t.Width-1), t.mask()>>1
	}
	switch {
	case a.class == zero:
		return 0
	case a.negative && t.Kind == Unsigned:
		return 0
	case a.class == infinite || a.exponent > 63:
		if a.negative {
			return least
		}
		return most
	}
	magnitude := a.above(126 - a.exponent)
	switch {
	case a.negative && magnitude > least:
		return least
	case a.negative:
		return t.wrap(-magnitude)
	case magnitude > most:
		return most
	}
	return magnitude
}

// f32 and f64 read bits, of32 and of64 write them.
func f32(v uint64) float32  { return math.Float32frombits(uint32(v)) }
func f64(v uint64) float64  { return math.Float64frombits(v) }
func of32(f float32) uint64 { return uint64(math.Float32bits(f)) }
func of64(f float64) uint64 { return math.Float64bits(f) }
