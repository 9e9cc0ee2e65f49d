//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// unknown is a rate that is not known yet: there is one snapshot only.
var unknown = math.NaN()

// units are the steps of a thousand.
const units = " kMGTPE"

// short returns a number that is not negative in at most 5 characters: 0, 7.25, 640, 1.25k, 12.5M.
func short(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case x < 0.005:
		return "0"
	}
	step := 0
	for x >= 999.5 && step < len(units)-1 {
		x, step = x/1000, step+1
	}
	digits := 0
	switch {
	case x < 9.995:
		digits = 2
	case x < 99.95:
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, x)
	if step == 0 && strings.HasSuffix(text, ".00") {
		text = strings.TrimSuffix(text, ".00") // a count
	}
	return text + strings.TrimSpace(units[step:step+1])
}

// count returns a whole number, in full as long as it has at most 5 digits.
func count[N ~int | ~uint32 | ~uint64](n N) string {
	if n < 100000 {
		return fmt.Sprint(n)
	}
	return short(float64(n))
}

// span returns a duration in at most 6 characters: 850ns, 1.23us, 12.3ms.
func span(d time.Duration) string {
	x, unit := float64(d), "ns"
	for _, next := range []string{"us", "ms", "s"} {
		if x < 999.5 {
			break
		}
		x, unit = x/1000, next
	}
	switch {
	case unit == "s" && x >= 999.5:
		return fmt.Sprintf("%.0fm", x/60)
	case unit == "ns" || x >= 99.95:
		return fmt.Sprintf("%.0f%s", x, unit)
	case x >= 9.995:
		return fmt.Sprintf("%.1f%s", x, unit)
	}
	return fmt.Sprintf("%.2f%s", x, unit)
}

// percent returns a share, from 0 to 1.
func percent(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

// hex returns the number of a queue as all tools of the tree write it; "-" for 0.
func hex(n uint32) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("0x%x", n)
}

// grouped returns a whole number with commas: 1,234,567.
func grouped[N ~int | ~uint32 | ~uint64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
