//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// A rest is a time in which the core waits by UMWAIT or TPAUSE. A write to the one monitored
// cache line ends a rest. Everything else (other queues, requests, arm words, timers) is
// polled only between rests. So these constants bound the length of a rest, and the
// number of rests before Run checks whether to stop.
const (
	monitorTime      = time.Microsecond      // longest rest while there are several queues
	monitorAloneTime = 10 * time.Microsecond // longest rest while there is one queue
	monitorRests     = 16                    // number of rests after which monitorWait returns
)

// monitorWait steps the shard and lets the core rest between steps. It returns when a step
// has found work, or after monitorRests rests.
//
// Each round arms the monitor first and then steps. So the step finds work that was
// announced before the monitor was armed, and a later announcement ends the rest.
func (sh *threadLoop) monitorWait() (done int) {
	defer sh.recoverFault()
	defer sh.endBatch()
	sh.restart()
	short, long := uint32(clock.Cycles(monitorTime)), uint32(clock.Cycles(monitorAloneTime))
	for range monitorRests {
		sh.acquire()
		q := sh.latest()
		if q != nil {
			sh.enter(q)
			sh.fault.part = cutLast
			q.sq.record.Monitor()
			sh.fault.qp, sh.fault.part = nil, cutVisits
		}
		sh.release()
		if done = sh.Step() + sh.pollColdPorts(); done > 0 {
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

// pollColdPorts is serveColdPorts between two steps.
func (sh *threadLoop) pollColdPorts() int {
	sh.acquire()
	defer sh.release()
	return sh.serveColdPorts()
}

// latestAmong is the largest number of queues that latest searches.
const latestAmong = 16

// latest searches the first latestAmong running queues and returns the one that has had work
// most recently.
func (sh *threadLoop) latest() (latest *qp) {
	for _, q := range sh.running[:min(len(sh.running), latestAmong)] {
		if latest == nil || q.sched.idleVisits < latest.sched.idleVisits {
			latest = q
		}
	}
	return latest
}
