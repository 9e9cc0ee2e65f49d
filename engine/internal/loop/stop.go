//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"time"

	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
)

// stopTime bounds each of the two parts of an orderly stop, so that a client that never
// stops posting cannot prevent the stop.
const stopTime = 100 * time.Millisecond

// stopQueues ends every queue in an orderly way. First it executes the work that has been
// announced. Then it flushes the rest: work that waits for a peer or was announced too
// late. So each work request has its completion before the device is gone.
//
// It steps all shards itself; their own threads have stopped stepping.
func (e *Runner) stopQueues() {
	for _, sh := range e.Shards {
		for c := range sh.Clients {
			c.Page.State.Publish(uint64(control.EngineStopping))
		}
	}
	for _, sh := range e.Loops {
		sh.Custody.HoldNothing()
	}
	e.stepUntilIdle()
	for _, sh := range e.Loops {
		for _, q := range sh.Running {
			sh.NewFault()
			sh.StopsBecause(q, codes.EngineStops, "the engine stops")
			sh.SetError(q)
		}
	}
	e.stepUntilIdle()
}

// stepUntilIdle steps until there is nothing more to do, or stopTime has passed.
func (e *Runner) stepUntilIdle() {
	alone, bound := cpu.Uniprocessor(), stopTime
	if e.Hooks.StopBound > 0 {
		bound = e.Hooks.StopBound
	}
	end := clock.Now() + clock.Cycles(bound)
	for idle := 0; idle <= e.stepsPerLap() && clock.Now() < end; idle++ {
		for _, sh := range e.Loops {
			if sh.Steps(true) > 0 {
				idle = -1
			}
		}
		if alone {
			cpu.Yield() // workers need this P to copy what is left
		}
	}
}

// stepsPerLap is the number of steps in which the device reaches every queue at least once.
// In that many steps it retries all stalled queues, sweeps all queue pairs if a CQ has
// overrun, polls all cold queues, visits all warm queues, and polls the hot BlueFlame
// registers.
func (e *Runner) stepsPerLap() (steps int) {
	for _, sh := range e.Loops {
		steps = max(steps, sh.stepsPerLap())
	}
	return steps
}

func (sh *Loop) stepsPerLap() int {
	stalled := func(c *object.Client) int { return len(c.Sched.Stalled) }
	watched := func(c *object.Client) int { return len(c.Sched.Watches) }
	return sh.Stallers.Round(stalled, 1)/execution.RetriesPerStep + sh.Sched.Unswept/completion.SweepPortion +
		sh.Sched.Watchers.Round(watched, PatrolPolls)/PatrolPolls +
		sh.Sched.Warm/RivalVisits + execution.HotVisits + 1
}

// publishGone shows every client, on its status page, that the device executes no more work.
func (e *Runner) publishGone() {
	now := clock.Now()
	for _, sh := range e.Shards {
		for c := range sh.Clients {
			c.Publish(now)
			c.Page.State.Publish(uint64(control.EngineGone))
		}
	}
}
