//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/nicless/nicless/engine/internal/survey"
	"github.com/nicless/nicless/state"
)

// Stats counts what an engine has done for all its clients since it was made, including
// clients that are gone.
type Stats struct {
	WQEs      uint64 // send WQEs executed, without flushed ones
	Bytes     uint64 // bytes of payload moved by these WQEs
	CQEs      uint64 // completions written
	Failed    uint64 // WQEs executed that ended with an error
	Receives  uint64 // receive WQEs consumed
	Events    uint64 // completion and other events sent
	Explained uint64 // explanations, including those held back
	Stalls    uint64 // times that a client's memory held up a thread of the engine
}

// Stats returns the counters of the device. Safe for concurrent use.
func (e *Engine) Stats() Stats { return Stats(e.runner.Stats()) }

// Stuck says where a thread of the engine is stuck, and for how long.
type Stuck struct {
	Client, Peer string // clients whose memory may be the cause; empty: none is known
	Queue        uint32 // number of Client's queue pair or, if CQ is true, of its completion queue
	CQ           bool
	PeerQueue    uint32        // number of Peer's queue pair
	Request      string        // the request of Client being served; empty: the thread works for a queue
	For          time.Duration // time since the thread last advanced
	Thread       string        // state of the thread, as the kernel reports it
	NoCore       bool          // the thread only waits for a core; all fields except For and Thread are zero
}

// Stuck returns where threads of the engine are stuck, as the watchdog's last check found
// it. Safe for concurrent use.
func (e *Engine) Stuck() (list []Stuck) {
	for _, s := range e.runner.Stuck() {
		list = append(list, Stuck(s))
	}
	return list
}

// State answers a request for the state of objects by user uid, who sees the objects that a watch of that
// user would show: all, if it is root or the user of this process. give takes the lines of the answer in
// order, on the caller's goroutine; it may wait, and an error of it ends the answer and is returned. The line
// with End is left to the caller. Objects are read in portions of 64 between steps. Safe for concurrent use.
func (e *Engine) State(uid uint32, r *state.Request, give func(*state.Line) error) error {
	return survey.Answer(e.runner, uid, r, give)
}
