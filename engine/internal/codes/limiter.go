//go:build linux && (amd64 || arm64)

package codes

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// A client gets each code ten times a second, and burst times at once. So it learns of a mistake that a
// program makes in each of its threads, or with each of its peers; a mistake in a loop does not fill its
// socket.
const (
	quietTime = 100 * time.Millisecond
	burst     = 32
)

// A Limiter limits how often each code is explained to a client and in the log. An explanation reports a
// mistake that hardware would ignore silently. Explanations over the limit are held back and counted. Each
// client has its own limiter, so that no client can use up the explanations of another.
type Limiter [Count]struct {
	Until uint64 // device clock at which the code has its whole burst again
	Held  uint32 // explanations held back since the last one
}

// Take counts an explanation of a code at now, on the device clock. It reports whether the explanation may be
// given, and how many were held back since the last one.
func (x *Limiter) Take(code Code, now uint64) (held uint32, ok bool) {
	k, each := &x[code], clock.Cycles(quietTime)
	next := max(k.Until, now)
	if next-now > (burst-1)*each {
		k.Held++
		return 0, false
	}
	held = k.Held
	k.Until, k.Held = next+each, 0
	return held, true
}
