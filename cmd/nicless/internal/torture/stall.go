package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// stallBound is how long a correct client may wait for the engine, apart from what the
// machine's scheduler explains.
const stallBound = 100 * time.Millisecond

// A Stall is a wait of a correct client that was longer than stallBound, and what
// explains it. What remains is the engine's: it was neither ready to run nor stopped,
// and the client had work for it.
type Stall struct {
	Who    string        `json:"who,omitempty"`
	For    string        `json:"for"` // what was waited for
	Begin  int64         `json:"begin_ns"`
	End    int64         `json:"end_ns"`
	Judged bool          `json:"judged"` // the kernel says how long threads waited for a core
	Engine time.Duration `json:"engine_ready_ns"`
	Own    time.Duration `json:"client_ready_ns"`
	Steal  time.Duration `json:"stolen_ns"`
	Stop   time.Duration `json:"client_stopped_ns"` // filled in by the supervisor
	// Blocked is where in the kernel threads of the engine were seen to wait meanwhile,
	// not to be interrupted: for a page or a lock.
	Blocked string `json:"engine_blocked_in,omitempty"`
}

// Length is how long the wait was, without the time for which the client was stopped.
func (s *Stall) Length() time.Duration { return max(0, time.Duration(s.End-s.Begin)-s.Stop) }

// Unexplained is what remains of it.
func (s *Stall) Unexplained() time.Duration {
	if !s.Judged {
		return 0
	}
	return max(0, s.Length()-s.Engine-s.Own-s.Steal)
}

func (s *Stall) String() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
	text := fmt.Sprintf("%s waited %s for %s; ready to run and without a core: the engine %s, the client %s; stolen %s; stopped %s",
		s.Who, ms(time.Duration(s.End-s.Begin)), s.For, ms(s.Engine), ms(s.Own), ms(s.Steal), ms(s.Stop))
	if s.Blocked != "" {
		text += "; the engine was seen to wait in " + s.Blocked
	}
	if !s.Judged {
		text += "; not judged"
	}
	return text
}

// Stalls are those of a run.
type Stalls struct {
	Above       int           `json:"above_100ms"`
	Unjudged    int           `json:"not_judged"`
	Unexplained int           `json:"unexplained_above_100ms"`
	Longest     time.Duration `json:"longest_unexplained_ns"`
	Worst       []Stall       `json:"worst"` // the unexplained, then others
}

// mostWorst is how many stalls a result shows.
const mostWorst = 8

func (s *Stalls) add(n Stall) {
	s.Above++
	if !n.Judged {
		s.Unjudged++
	}
	u := n.Unexplained()
	if u > stallBound {
		s.Unexplained++
	}
	s.Longest = max(s.Longest, u)
	at := 0
	for at < len(s.Worst) && (s.Worst[at].Unexplained() > u || s.Worst[at].Unexplained() == u && s.Worst[at].Length() >= n.Length()) {
		at++
	}
	if at < mostWorst {
		s.Worst = append(s.Worst[:at], append([]Stall{n}, s.Worst[at:]...)...)
		s.Worst = s.Worst[:min(len(s.Worst), mostWorst)]
	}
}

// A gauge measures the waits of a correct client.
type gauge struct {
	board
	slot    int
	threads int     // of the engine, which a request may have to wait for one after the other
	last    *delays // of the last look; nil: there is none
	looked  time.Time
	longest time.Duration
	blocked map[string]struct{} // since the mark
}

// lookTime lies between two looks at the delays of threads: so much more than the wait
// itself can be taken for its explanation.
const lookTime = 20 * time.Millisecond

// A mark is the beginning of a wait.
type mark struct {
	at      time.Time
	stopped time.Duration
	before  *delays
}

// newGauge returns a gauge of a process that is a client. A request of it needs each
// thread of the engine that polls, and one that hands it to them.
func newGauge(spec *Spec) (*gauge, error) {
	b, err := openBoard()
	return &gauge{board: b, slot: spec.slot(), threads: max(len(spec.Cores), 1) + 1}, err
}

// now is the time that this process has lived: it stands still while it is stopped.
func (g *gauge) now() time.Time { return time.Now().Add(-g.stopped(g.slot)) }

func (g *gauge) look() {
	g.looked = time.Now()
	g.last, _ = takeDelays(g.engine())
}

func (g *gauge) mark() mark {
	if time.Since(g.looked) >= lookTime {
		g.look()
	}
	clear(g.blocked)
	stopped := g.stopped(g.slot) // before the time: it may be stopped in between
	return mark{time.Now(), stopped, g.last}
}

// peek looks what the engine does, in the midst of a wait that is long already.
func (g *gauge) peek(m mark) {
	if time.Since(m.at) < stallBound/3 {
		return
	}
	for _, where := range blockedIn(g.engine()) {
		if g.blocked == nil {
			g.blocked = make(map[string]struct{})
		}
		g.blocked[where] = struct{}{}
	}
}

// since notes how long a wait was and returns the stall if it was one.
func (g *gauge) since(m mark, what string) *Stall {
	now := time.Now()
	d := now.Sub(m.at) - (g.stopped(g.slot) - m.stopped)
	g.longest = max(g.longest, d)
	if d <= stallBound {
		return nil
	}
	s := &Stall{For: what, Begin: m.at.UnixNano(), End: now.UnixNano()}
	s.Blocked = strings.Join(slices.Sorted(maps.Keys(g.blocked)), ", ")
	if g.look(); m.before != nil && g.last != nil && m.before.pid == g.last.pid {
		s.Judged = true
		s.Engine = g.last.engine.since(m.before.engine, g.threads)
		s.Own = g.last.own.since(m.before.own, 1)
		s.Steal = g.last.steal - m.before.steal
	}
	return s
}
