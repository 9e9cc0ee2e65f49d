//go:build linux && (amd64 || arm64)

package loop

import (
	"sync/atomic"

	"github.com/nicless/nicless/internal/clock"
)

// A load estimates for how long a thread had work. A thread that polls is never without something to do, so
// its time on a core does not say how much more it could do. To measure that, each step would have
// to read the clock. So a batch of steps counts those that found nothing, and takes off what they
// took: as much as in the last batches that found nothing at all. Time without a core counts as work while
// the thread has some; the kernel counts that time apart (package survey). See docs/design/0084.
type load struct {
	since  uint64 // device clock when the batch began; 0: no batch is counted
	idle   uint64 // steps of the batch that found nothing
	worked bool   // others found something
	each   uint64 // cycles that a step without work takes, times eachScale
	busy   uint64 // cycles

	shown atomic.Uint64 // busy, for other threads
}

// eachScale keeps fractions of a cycle, because a batch averages over many steps. firstEach is what the
// estimate may grow by in a batch at first: a tenth of what a step takes.
const (
	eachScale = 256
	firstEach = 10 * eachScale
)

// begin begins a batch.
func (l *load) begin(now uint64) { l.since, l.idle, l.worked = now, 0, false }

// end ends a batch.
func (l *load) end(now uint64) {
	took := now - l.since
	switch {
	case l.since == 0 || now <= l.since:
		return
	case l.worked:
		l.busy += took - min(took, l.idle*l.each/eachScale)
		l.shown.Store(l.busy)
	case l.idle > 0:
		// The shortest batches count: others were interrupted. The estimate grows slowly, because more queues
		// make a step longer.
		l.each = min(took*eachScale/l.idle, l.each+l.each/16+firstEach)
	}
	l.since = 0
}

// Busy returns for how long the thread has had work, in nanoseconds. Safe for concurrent use.
func (l *load) Busy() uint64 { return uint64(clock.Duration(l.shown.Load())) }
