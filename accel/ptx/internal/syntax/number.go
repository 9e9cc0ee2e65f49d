package syntax

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// constant returns the value of a number as it is written.
func constant(t token) (Constant, error) {
	s := t.text
	lower := strings.ToLower(s)
	switch {
	case strings.HasPrefix(lower, "0f"):
		bits, err := exact(s, 8)
		return Constant{Single, bits}, at(t, err)
	case strings.HasPrefix(lower, "0d"):
		bits, err := exact(s, 16)
		return Constant{Double, bits}, at(t, err)
	case !strings.HasPrefix(lower, "0x") && strings.ContainsAny(lower, ".e"):
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return Constant{}, at(t, fmt.Errorf("%s is no number", shorten(s)))
		}
		return Constant{Double, math.Float64bits(f)}, nil
	}
	digits, isUnsigned := strings.CutSuffix(lower, "u")
	base := 10
	switch {
	case strings.HasPrefix(digits, "0x"):
		digits, base = digits[2:], 16
	case strings.HasPrefix(digits, "0b"):
		digits, base = digits[2:], 2
	case len(digits) > 1 && digits[0] == '0':
		digits, base = digits[1:], 8
	}
	bits, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return Constant{}, at(t, fmt.Errorf("%s is no integer of at most 64 bits", shorten(s)))
	}
	if isUnsigned || bits > math.MaxInt64 {
		return Constant{Unsigned, bits}, nil
	}
	return Constant{Signed, bits}, nil
}

// exact returns the bits of a floating-point number that is written as digits in base 16.
func exact(s string, digits int) (uint64, error) {
	bits, err := strconv.ParseUint(s[2:], 16, 64)
	if err != nil || len(s) != 2+digits {
		return 0, fmt.Errorf("%s has not %d hexadecimal digits", shorten(s), digits)
	}
	return bits, nil
}

// at gives an error the position of a token.
func at(t token, err error) error {
	if err == nil {
		return nil
	}
	return &Error{t.at, err.Error()}
}
