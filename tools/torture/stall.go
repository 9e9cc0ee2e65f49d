//go:build linux && (amd64 || arm64)

package torture

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/internal/verdict"
)

// stallBound is how long a correct client may wait for the engine, without what explains the wait.
const stallBound = 100 * time.Millisecond

// A Stall is a wait of a correct client that was longer than stallBound, with its evidence. It is a fault
// only if the evidence does not explain it.
type Stall struct {
	Client string       `json:"who,omitempty"`
	For    string       `json:"for"` // what was waited for
	Kind   verdict.Kind `json:"kind"`
	verdict.Evidence
}

func (s *Stall) String() string {
	text := fmt.Sprintf("%s waited for %s: %v; %s of it are unexplained", s.Client, s.For, &s.Evidence, s.Left().Round(100*time.Microsecond))
	if s.Kind == verdict.Undecided {
		text += "; not judged"
	}
	return text
}

// fault returns the fault that the wait is, or nil.
func (s *Stall) fault() *verdict.Fault {
	if s.Kind == verdict.OK {
		return nil
	}
	f := verdict.New(s.Kind, fmt.Sprintf("%s within %v, without delays that the kernel counts", s.For, stallBound),
		"a wait of %v, of which %v are unexplained", s.Took.Round(100*time.Microsecond), s.Left().Round(100*time.Microsecond)).With(s.Evidence)
	f.Who = s.Client
	return f
}

// Stalls are the waits of a run that were longer than stallBound.
type Stalls struct {
	Above       int           `json:"above_100ms"`
	Undecided   int           `json:"not_judged"`
	Blocked     int           `json:"blocked_in_kernel"` // explained only because the kernel blocked a thread
	Unexplained int           `json:"unexplained_above_100ms"`
	Longest     time.Duration `json:"longest_unexplained_ns"` // of those that are decided
	Worst       []Stall       `json:"worst"`                  // those with the longest unexplained part first
}

// mostWorst is how many stalls a result shows.
const mostWorst = 8

// add decides what a wait was, and counts it.
func (s *Stalls) add(n *Stall) {
	s.Above++
	n.Kind = n.DecideWait(stallBound)
	left := n.Left()
	switch n.Kind {
	case verdict.Undecided:
		s.Undecided++
	case verdict.Stall:
		s.Unexplained++
	default:
		without := n.Evidence
		without.Engine.Blocked, without.Client.Blocked = 0, 0
		if without.DecideWait(stallBound) != verdict.OK {
			s.Blocked++
		}
	}
	if n.Kind != verdict.Undecided {
		s.Longest = max(s.Longest, left)
	}
	at := 0
	for at < len(s.Worst) && s.Worst[at].Left() >= left {
		at++
	}
	if at < mostWorst {
		s.Worst = append(s.Worst[:at], append([]Stall{*n}, s.Worst[at:]...)...)
		s.Worst = s.Worst[:min(len(s.Worst), mostWorst)]
	}
}

// A waitMeter measures the waits of a client's process.
type waitMeter struct {
	board
	*verdict.Witness
	slot    int
	longest time.Duration
	current mark // the beginning of what is waited for
}

// A mark is the beginning of a wait.
type mark struct {
	verdict.Mark
	stopped time.Duration
}

// newWaitMeter returns a meter for a client's process. A request may need every polling thread of
// the engine, and the thread that hands the request to them.
func newWaitMeter(spec *Spec) (*waitMeter, error) {
	b, err := openBoard()
	if err != nil {
		return nil, err
	}
	g := &waitMeter{board: b, slot: spec.slot(), Witness: verdict.NewWitness(turns(spec.Cores), b.engines)}
	if spec.Role == roleClient {
		g.WithPeers(func() []int { return b.pids(g.slot ^ 1) }) // the other end of the pair
	}
	return g, nil
}

// turns returns how many threads of an engine a request may need, one after another.
func turns(cores []int) int { return max(len(cores), 1) + 1 }

// now returns the time less the times for which this process was stopped.
func (g *waitMeter) now() time.Duration { return verdict.Now() - g.stopped(g.slot) }

func (g *waitMeter) mark() mark {
	stopped := g.stopped(g.slot) // read this first, because the process may be stopped between the readings
	g.current = mark{g.Begin(), stopped}
	return g.current
}

// fault returns the fault that an error is, with the evidence of the present wait.
func (g *waitMeter) fault(err error) *verdict.Fault {
	if f := verdict.Of(err); f != nil && f.Evidence != nil {
		return f
	}
	return verdict.FromError(err, g.evidence(g.current))
}

// passed returns how long a wait has taken until now.
func (g *waitMeter) passed(m mark) time.Duration {
	return verdict.Now() - m.At - (g.stopped(g.slot) - m.stopped)
}

// evidence returns the evidence of a wait until now.
func (g *waitMeter) evidence(m mark) verdict.Evidence {
	e := g.Since(m.Mark)
	e.Stopped = g.stopped(g.slot) - m.stopped
	return e
}

// late returns the fault of a wait that has passed its deadline.
func (g *waitMeter) late(k verdict.Kind, m mark, expected, format string, args ...any) error {
	return verdict.Late(k, g.evidence(m), expected, format, args...)
}

// since ends a wait. If the wait was longer than stallBound, it returns the wait, otherwise nil.
func (g *waitMeter) since(m mark, what string) *Stall {
	d := g.passed(m)
	g.longest = max(g.longest, d)
	if d <= stallBound {
		return nil
	}
	return &Stall{For: what, Evidence: g.evidence(m)}
}
