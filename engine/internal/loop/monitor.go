//go:build linux && (amd64 || arm64)

package loop

import (
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// A rest is a time in which the core waits by UMWAIT or TPAUSE. A write to the monitored cache line ends the
// rest. There is only one such line, so everything else (other queues, requests, arm words, timers) is polled
// between rests. These constants bound the length of a rest, and the number of rests before Run checks
// whether to stop.
const (
	monitorTime      = time.Microsecond      // longest rest while there are several queues
	monitorAloneTime = 10 * time.Microsecond // longest rest while there is one queue
	monitorRests     = 16                    // number of rests after which MonitorWait returns
)

// MonitorWait steps the shard and lets the core rest between steps. It returns when a step
// has found work, or after monitorRests rests.
//
// Each round arms the monitor first and then steps. So the step finds work that was
// announced before the monitor was armed, and a later announcement ends the rest.
func (sh *Loop) MonitorWait() (done int) {
	defer sh.RecoverFault()
	defer sh.endBatch()
	sh.Restart()
	short, long := uint32(clock.Cycles(monitorTime)), uint32(clock.Cycles(monitorAloneTime))
	for range monitorRests {
		sh.Acquire()
		q := sh.Latest()
		if q != nil {
			sh.Enter(q)
			sh.Fault.Part = object.CutLast
			q.SQ.Record.Monitor()
			sh.Fault.QP, sh.Fault.Part = nil, object.CutVisits
		}
		sh.Release()
		if done = sh.Step() + sh.pollColdPorts(); done > 0 {
			return done
		}
		switch {
		case q == nil:
			cpu.TimedPause(short)
		case len(sh.Running) == 1:
			cpu.MonitorWait(long)
		default:
			cpu.MonitorWait(short)
		}
	}
	return 0
}

// pollColdPorts is ServeColdPorts between two steps.
func (sh *Loop) pollColdPorts() int {
	sh.Acquire()
	defer sh.Release()
	return sh.ServeColdPorts()
}

// latestAmong is the largest number of queues that Latest searches.
const latestAmong = 16

// Latest searches the first latestAmong running queues and returns the one that has had work
// most recently.
func (sh *Loop) Latest() (latest *object.QP) {
	for _, q := range sh.Running[:min(len(sh.Running), latestAmong)] {
		if latest == nil || q.Sched.IdleVisits < latest.Sched.IdleVisits {
			latest = q
		}
	}
	return latest
}
