//go:build linux && (amd64 || arm64)

package object

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/clock"
)

// A client gets each code ten times a second, and explainBurst times at once. So it learns of a mistake
// that a program makes in each of its threads, or with each of its peers; a mistake in a loop does not fill
// its socket.
const (
	quietTime    = 100 * time.Millisecond
	explainBurst = 32
)

// Take counts an explanation of a code at now, on the device clock. It reports whether the explanation may be
// given, and how many were held back since the last one.
func (x *explainer) Take(code codes.Code, now uint64) (held uint32, ok bool) {
	k, each := &x[code], clock.Cycles(quietTime)
	next := max(k.Until, now)
	if next-now > (explainBurst-1)*each {
		k.Held++
		return 0, false
	}
	held = k.Held
	k.Until, k.Held = next+each, 0
	return held, true
}

// LogBudget is how many explanations of all clients together are written to the log in a
// second. They are limited because writing takes time of the device's own thread. The shares
// of one user and of one client are in log.go.
const LogBudget = 100

// A Reason is why something failed. Its text is formatted only if it is used.
type Reason struct {
	Code   codes.Code
	format string
	args   []any
}

func Because(code codes.Code, format string, args ...any) Reason { return Reason{code, format, args} }

// String returns the text.
func (r Reason) String() string { return fmt.Sprintf(r.format, r.args...) }
