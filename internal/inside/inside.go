// Package inside lets package niclesstest run an engine with several clients in the process of a test. The
// root package implements it, and gives no other program these means: they let a test see and hold what a
// device keeps to itself.
//
// The package imports neither the root package nor the engine, so that the root package can import it. Where
// a type of the root package is meant, it has any and says which.
package inside

import (
	"time"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/platform"
)

// An Engine is an engine in this process with any number of clients. Its methods are safe for concurrent use.
type Engine interface {
	// Attach makes a client. name is for the engine's log and for watches.
	Attach(name string, l Ledger) (Client, error)

	// Sync returns when the engine has done what was announced before the call, as far as it can be done
	// now, and has recorded it for watches.
	Sync()

	// AfterSteps makes the engine call f after it was stepped, before anybody who waits for events continues.
	// It is for engines whose Clock is not Real.
	AfterSteps(f func())

	// Advance lets d pass on the device clock, and does what is due on the way. It is for engines with a
	// Clock of kind Held or Bubble.
	Advance(d time.Duration)

	// Close ends the engine. Its clients are closed before.
	Close() error
}

// A Client is a client of an Engine.
type Client interface {
	// Context returns the client as a *nicless.Context.
	Context() any

	// Alive reports whether the device still has the client. A rule of faults can have killed it. The
	// Context then says that the device is gone, and the ledger that the client is.
	Alive() bool

	// Drain executes the work that doorbells have announced on the client's queue pairs.
	Drain()
}

// A Ledger is told what a client makes and destroys. Its methods are called by the goroutines that do so,
// several at a time.
type Ledger interface {
	// Served is called after a request that the device has served.
	Served(op control.Op, req, ans control.Message)

	// Dropped is called before a queue pair or a whole client goes, for each of the completion queues
	// concerned, with the completions that nobody can poll any more.
	Dropped(cqn uint32, list []hostpath.Unpolled)

	// Gone is called when the client is closed.
	Gone()
}

// A Clock says what makes the device clock of an engine advance.
type Clock int

const (
	Real   Clock = iota // time: a thread runs the engine
	Held                // calls of Advance only: the device is stepped when there is work
	Bubble              // the time of the testing/synctest bubble in which Open was called
)

// Open starts an engine. config is a nicless.Config.
func Open(config any, c Clock) (Engine, error) {
	if open == nil {
		return nil, platform.Unsupported("nicless: an engine")
	}
	return open(config, c)
}

// Register is called by the root package, where there are engines. It returns what was registered before.
func Register(f Opener) (before Opener) {
	before, open = open, f
	return before
}

// An Opener implements Open.
type Opener func(config any, c Clock) (Engine, error)

var open Opener
