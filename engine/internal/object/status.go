//go:build linux && (amd64 || arm64)

package object

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
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

func NewStatusPage(b []byte) (p statusPage) {
	p.State = shm.Word64At(b, control.StatusState)
	p.hz = shm.Word64At(b, control.StatusHz)
	p.Asleep = shm.Word64At(b, control.StatusAsleep)
	p.clock = shm.Word64At(b, control.StatusClock)
	for i := range p.counters {
		p.counters[i] = shm.Word64At(b, control.Counter(i).Offset())
	}
	p.hz.Publish(clock.Hz())
	p.State.Publish(uint64(control.EngineRunning))
	return p
}

// publishTime is the greatest age of a status page while the engine runs.
const publishTime = 200 * time.Microsecond

// Publish writes this client's page.
func (c *Client) Publish(now uint64) {
	c.Page.clock.Publish(now)
	for i, v := range c.Count {
		c.Page.counters[i].Publish(v)
	}
}

// Stats returns what the engine has done so far. Safe for concurrent use.
func (e *Device) Stats() Stats {
	var n Counts
	e.Do(func() {
		n = e.Past
		for _, sh := range e.Shards {
			for c := range sh.Clients {
				n.Add(&c.Count)
			}
		}
	})
	return Stats{
		WQEs: n[control.CounterWQEs], Bytes: n[control.CounterBytes], Explained: n[control.CounterExplained],
		CQEs: n[control.CounterCQEs], Failed: n[control.CounterFailed], Receives: n[control.CounterReceives],
		Events: n[control.CounterEvents], Stalls: n[control.CounterStalls],
	}
}

func (n *Counts) Add(more *Counts) {
	for i, v := range more {
		n[i] += v
	}
}
