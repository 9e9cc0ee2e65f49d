package verdict

import (
	"fmt"
	"time"
)

const (
	// LeastShare is the part of a wait that engine and client must each have had a core if the wait is to be
	// judged. A control call needs about 100 us of a core, a WRITE less. With a twentieth of the wait, an
	// engine that has not answered in 10 s has had 0.5 s: five thousand times that. A larger limit leaves too
	// little room for the torture test itself: its 20 processes alone bring the share on two cores down to
	// between 13 % and 15 %.
	LeastShare = 0.05

	// MostBlocked is how much of a wait the kernel may explain by uninterruptible sleep. The longest of these
	// that was seen on a busy disk was 168 ms. A thread that is blocked for longer waits for something that
	// another process holds on purpose, and must not have waited for it.
	MostBlocked = time.Second

	// mostSuspended is how far the two clocks of the kernel may move apart without a suspension: they are
	// not read at the same moment.
	mostSuspended = 50 * time.Millisecond
)

// Times is what the threads of one side had during a wait. Waited and Blocked are those of the threads that
// waited longest: as many threads as an answer needs one after another.
type Times struct {
	Ran     time.Duration `json:"ran_ns"`     // all threads together
	Waited  time.Duration `json:"waited_ns"`  // ready to run, without a core
	Blocked time.Duration `json:"blocked_ns"` // seen in uninterruptible sleep in the kernel; at least so long
	In      string        `json:"blocked_in,omitempty"`
}

// held is how long the threads could not run although they wanted to.
func (t *Times) held() time.Duration { return t.Waited + min(t.Blocked, MostBlocked) }

func (t *Times) String() string {
	text := fmt.Sprintf("ran %s, without a core %s, blocked in the kernel %s", ms(t.Ran), ms(t.Waited), ms(t.Blocked))
	if t.In != "" {
		text += " in " + t.In
	}
	return text
}

// Evidence is what engine and client had during a wait.
type Evidence struct {
	Took      time.Duration `json:"took_ns"` // by a clock that stands still while the machine is suspended
	Begin     time.Duration `json:"begin_ns"`
	Engine    Times         `json:"engine"`
	Client    Times         `json:"client"`
	Peer      Times         `json:"peer,omitzero"`     // of the client, if it may have waited for one
	Steal     time.Duration `json:"steal_ns"`          // the hypervisor gave cores to others
	Stopped   time.Duration `json:"client_stopped_ns"` // the test itself had stopped the client
	Suspended time.Duration `json:"suspended_ns"`      // the machine was suspended

	// Known says that the kernel counts how long threads wait for a core, and that the same engine was there
	// at both ends.
	Known bool `json:"known"`
}

// length is the wait without the time for which the test itself has stopped the client.
func (e *Evidence) length() time.Duration { return max(0, e.Took-e.Stopped) }

// Left returns how much of a wait is not explained. The delays of two threads that wait at the same time
// are both taken off, so it is a lower bound.
func (e *Evidence) Left() time.Duration {
	blocked := min(e.Engine.Blocked+e.Client.Blocked, MostBlocked)
	return max(0, e.length()-e.Engine.Waited-e.Client.Waited-e.Steal-blocked)
}

// Share returns which part of a wait engine and client had a core, or would have had one if they had been
// ready: the smaller one of the two.
func (e *Evidence) Share() float64 {
	if e.length() == 0 {
		return 1
	}
	held := max(e.Engine.held(), e.Client.held(), e.Peer.held()) + e.Steal
	return max(0, 1-float64(held)/float64(e.length()))
}

// Decide returns what a deadline that has passed means: a fault of kind k, or Undecided.
func (e *Evidence) Decide(k Kind) Kind {
	if !e.Known || e.Suspended > mostSuspended || e.Share() < LeastShare {
		return Undecided
	}
	return k
}

// DecideWait returns what a wait means that took longer than bound: OK if it is explained, Stall or
// Undecided.
func (e *Evidence) DecideWait(bound time.Duration) Kind {
	if e.Known && e.Suspended <= mostSuspended && e.Left() <= bound {
		return OK
	}
	return e.Decide(Stall)
}

func (e *Evidence) String() string {
	text := fmt.Sprintf("took %s; engine %v; client %v; hypervisor steal %s; client stopped %s; share of a core at least %.0f%%",
		ms(e.Took), &e.Engine, &e.Client, ms(e.Steal), ms(e.Stopped), 100*e.Share())
	if e.Peer != (Times{}) {
		text += fmt.Sprintf("; peer %v", &e.Peer)
	}
	if e.Suspended > mostSuspended {
		text += "; the machine was suspended for " + ms(e.Suspended)
	}
	if !e.Known {
		text += "; the kernel does not tell how long threads waited, or the engine was replaced"
	}
	return text
}
