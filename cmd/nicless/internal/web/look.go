//go:build linux && (amd64 || arm64)

package web

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
)

// Limits of the questions to the engine.
const (
	interval   = time.Second      // least time between two looks
	dilution   = 100              // after a look that took t of a core, so many t pass without one
	mostPause  = time.Minute      // the most time between two looks
	patience   = 10 * time.Second // how long the engine may take to answer
	linksLimit = time.Second      // how long the links may take to answer
)

// A look is what the engine has said.
type look struct {
	now    *state.Snapshot
	change *state.Change // since the look before
	links  []links.Report
	pause  time.Duration // until the next one
	err    error         // why there is nothing new; now is the last snapshot, or nil
}

// A looker keeps the newest look for all streams.
type looker struct {
	socket   string
	cpu      func() time.Duration
	interval time.Duration // least time between two looks

	mu     sync.Mutex
	last   look
	due    time.Time     // of the next look
	taking chan struct{} // closed at the end of the look that is being taken; nil: none is
}

// look returns the newest look, for which it waits if it is time for one. Its slices must not be changed. If
// ctx ends meanwhile, the look says so to this caller only, and goes on for the others.
func (l *looker) look(ctx context.Context) look {
	l.mu.Lock()
	if l.taking == nil && time.Now().Before(l.due) {
		defer l.mu.Unlock()
		return l.last
	}
	if l.taking == nil {
		l.taking = make(chan struct{})
		go l.take(context.WithoutCancel(ctx), l.last, l.taking)
	}
	taking := l.taking
	l.mu.Unlock()
	select {
	case <-taking:
	case <-ctx.Done():
		return look{err: context.Cause(ctx)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// take takes the look after an older one, and closes taken then.
func (l *looker) take(ctx context.Context, old look, taken chan<- struct{}) {
	begin := l.cpu()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := state.Read(ctx, l.socket, state.Request{})
	next := look{now: old.now, change: old.change, links: old.links, err: err}
	if err == nil {
		next.now, next.change = s, changeSince(s, old.now)
		next.links = nil
		// Engines without links do not answer.
		_ = unixsock.Query(l.socket+nicless.LinksSuffix, linksLimit, &next.links)
	}
	next.pause = pauseAfter(l.cpu()-begin, l.interval)
	l.mu.Lock()
	defer l.mu.Unlock()
	// Streams that are a little early get a new one.
	l.last, l.due = next, time.Now().Add(next.pause-next.pause/10)
	l.taking = nil
	close(taken)
}

// changeSince returns what has changed since an older snapshot, if that is of the same engine.
func changeSince(s, old *state.Snapshot) *state.Change {
	if old == nil || old.Device.PID != s.Device.PID || !old.Device.Started.Equal(s.Device.Started) {
		old = &state.Snapshot{}
	}
	return s.Since(old)
}

// processorTime returns how long this process has had a core. The time that a look waits for a core costs
// nobody anything, so it does not count.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pauseAfter returns how long to wait after a look that took this processor time.
func pauseAfter(took, interval time.Duration) time.Duration {
	return max(interval, min(dilution*took, mostPause))
}
