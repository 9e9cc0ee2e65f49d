//go:build linux && (amd64 || arm64)

package loop

import (
	"context"

	"github.com/nicless/nicless/engine/internal/report"
)

// Run steps the engine on a thread of its own until ctx ends. Then it executes the work
// that has been announced, flushes the work that cannot be executed, and returns nil. It
// returns an error if the thread cannot be put on the cores asked for. Only one Run at a
// time is allowed. Run calls started, unless started is nil, once the thread is on its core
// and serves requests. With several Config.Cores there is a thread for each core; these
// threads start and stop together.
//
// The goroutine spins and so holds its P: GOMAXPROCS should be one more than the rest of
// the program needs. The goroutine can be preempted like any other.
func (e *Runner) Run(ctx context.Context, started func()) error {
	first := e.Loops[0]
	t, err := first.occupyThread()
	if err != nil {
		return err
	}
	defer t.restore()
	e.Mail.Open(t.wake)
	defer e.Mail.Shut()
	end, err := first.UseWorkers()
	if err != nil {
		return err
	}
	defer end()
	defer e.detachSleepers()
	if err := t.attachSleeper(); err != nil {
		return err
	}
	others, err := e.startThreads(ctx)
	defer others.end()
	if err != nil {
		return err
	}
	defer e.publishGone()
	stop, err := report.StartWatchdog(e.Device)
	if err != nil {
		return err
	}
	defer stop()
	defer context.AfterFunc(ctx, t.sleeper.Wake)()
	if started != nil {
		started()
	}
	first.loop(ctx)
	others.stopWork()
	e.stopQueues()
	return nil
}
