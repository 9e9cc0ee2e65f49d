//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

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
func (e *runner) stopQueues() {
	for _, sh := range e.shards {
		for c := range sh.clients {
			c.page.state.Publish(uint64(control.EngineStopping))
		}
	}
	e.stepUntilIdle()
	for _, sh := range e.loops {
		for _, q := range sh.running {
			sh.setError(q)
		}
	}
	e.stepUntilIdle()
}

// stepUntilIdle steps until there is nothing more to do, or stopTime has passed.
func (e *runner) stepUntilIdle() {
	alone, bound := cpu.Uniprocessor(), stopTime
	if e.hooks.stopBound > 0 {
		bound = e.hooks.stopBound
	}
	end := clock.Now() + clock.Cycles(bound)
	for idle := 0; idle <= e.stepsPerLap() && clock.Now() < end; idle++ {
		for _, sh := range e.loops {
			if sh.steps(true) > 0 {
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
func (e *runner) stepsPerLap() (steps int) {
	for _, sh := range e.loops {
		steps = max(steps, sh.stepsPerLap())
	}
	return steps
}

func (sh *threadLoop) stepsPerLap() int {
	stalled := func(c *client) int { return len(c.sched.stalled) }
	watched := func(c *client) int { return len(c.sched.watches) }
	return sh.stallers.round(stalled, 1)/retriesPerStep + sh.sched.unswept/sweepPortion + sh.sched.watchers.round(watched, patrolPolls)/patrolPolls +
		sh.sched.warm/rivalVisits + hotVisits + 1
}

// publishGone tells every client, on its status page, that nothing more will be executed.
func (e *runner) publishGone() {
	now := clock.Now()
	for _, sh := range e.shards {
		for c := range sh.clients {
			c.publish(now)
			c.page.state.Publish(uint64(control.EngineGone))
		}
	}
}
