//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/fault"
)

// An Engine is one device. Step and Run may be called only on the thread that owns the engine.
// The other methods may be called from any goroutine.
type Engine struct{ runner *loop.Runner }

// New returns an engine, which the caller steps or runs. It refuses values in cfg that are
// out of range.
func New(cfg Config) (*Engine, error) { return newEngine(cfg, rand.Reader) }

// newEngine is New, but takes keys and numbers from the source random. Two engines whose
// sources are equal give out the same keys and numbers for the same requests.
func newEngine(cfg Config, random io.Reader) (*Engine, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if err := cfg.checkCores(); err != nil {
		return nil, err
	}
	if err := cfg.checkIdentity(); err != nil {
		return nil, err
	}
	var faults *fault.Set
	if cfg.Faults != nil {
		var err error
		if faults, err = fault.NewSet(cfg.Faults); err != nil {
			return nil, err
		}
	}
	r, err := loop.NewRunner(cfg.settings(), cfg.Log, random)
	if err != nil {
		return nil, err
	}
	r.GUID = cfg.guid(r.GUID)
	e := &Engine{r}
	if faults != nil {
		request.Device{Runner: r}.SetFaults(faults, nil)
	}
	return e, nil
}

// Step visits the queues that have had work lately, one after another. For each of them it
// executes at most Burst WQEs and about Slice bytes. It also polls some of the other queues
// for new work. It returns the number of WQEs that it completed or advanced, plus the number
// of queues that it found to have new work. It never waits, and it allocates only to explain
// faults.
//
// Not safe for concurrent use: one thread owns an engine.
func (e *Engine) Step() (done int) { return e.runner.Step() }

// Run steps the engine on a thread of its own until ctx ends. Then it executes the work
// that has been announced, flushes the work that cannot be executed, and returns nil. It
// returns an error if the thread cannot be put on the cores asked for. Only one Run at a
// time is allowed. Run calls started, unless started is nil, once the thread is on its core
// and serves requests. With several Config.Cores there is a thread for each core; these
// threads start and stop together.
//
// The goroutine spins and so holds its P: GOMAXPROCS should be one more than the rest of
// the program needs. The goroutine can be preempted like any other.
func (e *Engine) Run(ctx context.Context, started func()) error { return e.runner.Run(ctx, started) }

// Do runs f between two steps and returns when f has returned. While the engine sleeps or
// is not run, f runs on the caller's goroutine; during that time the caller must not let
// another goroutine step the engine. Do is safe for concurrent use, but f must not call it.
func (e *Engine) Do(f func()) { e.runner.Do(f) }

// GUID returns the number that identifies this engine.
func (e *Engine) GUID() uint64 { return e.runner.GUID }

// FlushLog waits, for at most d, until every line that the device has written so far is in
// the log. Safe for concurrent use.
func (e *Engine) FlushLog(d time.Duration) { e.runner.Journal.Flush(d) }
