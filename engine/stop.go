package engine

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
)

// stopTime bounds each of the two parts of an orderly stop: a client that posts
// on and on does not keep the device.
const stopTime = 100 * time.Millisecond

// windUp ends every queue in order: what has been announced is executed, then
// what is left, because it waits for a peer or comes too late, is flushed. So
// each work request has its completion when the device is gone.
//
// It steps all shards, whose own threads have ended.
func (e *Engine) windUp() {
	for _, l := range e.shards {
		for c := range l.clients {
			c.page.state.Publish(uint64(control.EngineStopping))
		}
	}
	e.rest()
	for _, l := range e.shards {
		for _, q := range l.running {
			l.setError(q)
		}
	}
	e.rest()
}

// rest steps until there is nothing more to do, or stopTime has passed.
func (e *Engine) rest() {
	alone, bound := cpu.Uniprocessor(), stopTime
	if e.hooks.stopBound > 0 {
		bound = e.hooks.stopBound
	}
	end := clock.Now() + clock.Cycles(bound)
	for idle := 0; idle <= e.lap() && clock.Now() < end; idle++ {
		for _, l := range e.shards {
			if l.steps(true) > 0 {
				idle = -1
			}
		}
		if alone {
			cpu.Yield() // workers need this P to copy what is left
		}
	}
}

// lap is in how many steps the device looks at everybody: who waits, who needs a
// queue that has overrun, who is cold, who is not, whose register is hot.
func (e *Engine) lap() (steps int) {
	for _, l := range e.shards {
		steps = max(steps, l.lap())
	}
	return steps
}

func (sh *shard) lap() int {
	return len(sh.stalled)/retryLooks + sh.sched.unswept/sweepPortion + len(sh.sched.watches)/patrolLooks + sh.sched.warm/rivalLooks + hotVisits + 1
}

// leave tells every client that nothing will be executed any more.
func (e *Engine) leave() {
	now := clock.Now()
	for _, l := range e.shards {
		for c := range l.clients {
			c.publish(now)
			c.page.state.Publish(uint64(control.EngineGone))
		}
	}
}
