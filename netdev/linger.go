//go:build linux && (amd64 || arm64)

package netdev

import (
	"runtime"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/clock"
)

// A lingerer decides whether the goroutine that receives polls for some more time before it sleeps. A packet
// is often answered soon: an answer that finds the goroutine awake is delivered one wake-up earlier. Polling
// that finds nothing costs a core. So after each poll in vain, more polls are skipped than after the last.
type lingerer struct {
	vain int // number of polls in a row that found nothing
	skip int // number of polls to skip from now on
}

// lingerTime is about the time that an answer takes. At most 1<<mostVain - 1 polls in a row are skipped.
const (
	lingerTime = 100 * time.Microsecond
	mostVain   = 7
)

// poll polls until there are completions, enough says that it should end, or lingerTime has passed.
func (l *lingerer) poll(cq *nicless.CQ, done []nicless.Completion, enough func() bool) (int, error) {
	if l.skip > 0 {
		l.skip--
		return 0, nil
	}
	for end := clock.Now() + clock.Cycles(lingerTime); clock.Now() < end && !enough(); runtime.Gosched() {
		if n, err := cq.Poll(done); n > 0 || err != nil {
			l.vain = 0
			return n, err
		}
	}
	l.vain = min(l.vain+1, mostVain)
	l.skip = 1<<l.vain - 1
	return 0, nil
}
