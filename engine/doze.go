package engine

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
)

// How long the core rests at most: one line is watched, and everything else (other
// queues, requests, arm words, timers) is looked at only when it has rested.
const (
	dozeTime   = time.Microsecond      // while there are several queues
	dozeLonger = 10 * time.Microsecond // while there is one
	dozes      = 16                    // between two looks at what is not work
)

// doze steps the engine and has the core rest between steps, until there is work.
//
// The line is watched first, then all is looked at: what is announced before the
// line is watched is seen by the step behind, and what comes later ends the rest.
func (e *lane) doze() (done int) {
	defer e.rescue()
	defer e.endBatch()
	e.restart()
	short, long := uint32(clock.Cycles(dozeTime)), uint32(clock.Cycles(dozeLonger))
	for range dozes {
		e.begin()
		q := e.latest()
		if q != nil {
			e.enter(q)
			e.part = cutLast
			q.sendRec.Monitor()
			e.cur, e.part = nil, cutVisits
		}
		e.end()
		if done = e.Step(); done > 0 {
			return done
		}
		switch {
		case q == nil:
			shm.Rest(short)
		case len(e.running) == 1:
			shm.AwaitLine(long)
		default:
			shm.AwaitLine(short)
		}
	}
	return 0
}

// latestOf is among how many queues the latest is looked for.
const latestOf = 16

// latest returns the queue that worked last, of the first that are running.
func (e *lane) latest() (latest *qp) {
	for _, q := range e.running[:min(len(e.running), latestOf)] {
		if latest == nil || q.vain < latest.vain {
			latest = q
		}
	}
	return latest
}
