//go:build linux && (amd64 || arm64)

package explore

import (
	"fmt"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/verdict"
)

// mostFrames is how many functions of a panic are named: enough to tell one from another.
const mostFrames = 8

// closing is how long the clients of a device that has panicked may take to close. It may hold a lock for
// ever.
const closing = 100 * time.Millisecond

// panicked returns the outcome of a run in which the device has panicked with v. The fault has no addresses,
// so it is the same when it comes again.
func (w *world) panicked(v any) *Outcome {
	w.fault = verdict.New(verdict.Failed, "no panic", "a panic: %v, in %s", v, strings.Join(frames(), ", "))
	w.fault.Who = "the device"
	w.seen.Events = len(w.tape.events)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }() // one more panic says nothing new
		_ = w.close()
	}()
	select {
	case <-ended:
	case <-time.After(closing):
	}
	return &Outcome{w.fault, w.seen, w.now, w.tape.events}
}

// frames names the functions that a panic came through, from the innermost one to Execute.
func frames() (names []string) {
	pcs := make([]uintptr, 64)
	list := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	inside := false // the first ones recover
	for {
		f, more := list.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			inside = inside || f.Function == "runtime.gopanic"
		case inside:
			names = append(names, fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), path.Base(f.File), f.Line))
		}
		if !more || len(names) == mostFrames || strings.HasSuffix(f.Function, ".Execute") {
			return names
		}
	}
}
