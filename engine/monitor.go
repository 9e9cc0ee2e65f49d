package engine

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// How long the core rests at most: one line is watched, and everything else (other
// queues, requests, arm words, timers) is looked at only when it has rested.
const (
	monitorTime      = time.Microsecond      // while there are several queues
	monitorAloneTime = 10 * time.Microsecond // while there is one
	monitorRests     = 16                    // between two looks at what is not work
)

// monitorWait steps the engine and has the core rest between steps, until there is work.
//
// The line is watched first, then all is looked at: what is announced before the
// line is watched is seen by the step behind, and what comes later ends the rest.
func (sh *shard) monitorWait() (done int) {
	defer sh.rescue()
	defer sh.endBatch()
	sh.restart()
	short, long := uint32(clock.Cycles(monitorTime)), uint32(clock.Cycles(monitorAloneTime))
	for range monitorRests {
		sh.begin()
		q := sh.latest()
		if q != nil {
			sh.enter(q)
			sh.fault.part = cutLast
			q.sq.record.Monitor()
			sh.fault.qp, sh.fault.part = nil, cutVisits
		}
		sh.end()
		if done = sh.Step(); done > 0 {
			return done
		}
		switch {
		case q == nil:
			cpu.TimedPause(short)
		case len(sh.running) == 1:
			cpu.MonitorWait(long)
		default:
			cpu.MonitorWait(short)
		}
	}
	return 0
}

// latestOf is among how many queues the latest is looked for.
const latestOf = 16

// latest returns the queue that worked last, of the first that are running.
func (sh *shard) latest() (latest *qp) {
	for _, q := range sh.running[:min(len(sh.running), latestOf)] {
		if latest == nil || q.sched.idleVisits < latest.sched.idleVisits {
			latest = q
		}
	}
	return latest
}
