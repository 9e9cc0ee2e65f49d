//go:build linux && (amd64 || arm64)

package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// stallBound is how long a correct client may wait for the engine. Delays by the scheduler are
// not counted.
const stallBound = 100 * time.Millisecond

// A Stall is a wait of a correct client that was longer than stallBound, with the delays that
// explain it. The part that no delay explains is the engine's fault: in that time the engine
// had work, and was neither stopped nor waiting for a core.
type Stall struct {
	Client string        `json:"who,omitempty"`
	For    string        `json:"for"` // what was waited for
	Begin  int64         `json:"begin_ns"`
	End    int64         `json:"end_ns"`
	Judged bool          `json:"judged"` // true if the kernel counts how long threads wait for a core
	Engine time.Duration `json:"engine_ready_ns"`
	Own    time.Duration `json:"client_ready_ns"`
	Steal  time.Duration `json:"stolen_ns"`
	Stop   time.Duration `json:"client_stopped_ns"` // the supervisor fills it in
	// Blocked has the kernel functions in which threads of the engine were seen in
	// uninterruptible sleep meanwhile: for a page or a lock.
	Blocked string `json:"engine_blocked_in,omitempty"`
}

// Length returns the length of the wait without the time for which the client was stopped.
func (s *Stall) Length() time.Duration { return max(0, time.Duration(s.End-s.Begin)-s.Stop) }

// Unexplained returns how much of the wait no delay explains.
func (s *Stall) Unexplained() time.Duration {
	if !s.Judged {
		return 0
	}
	return max(0, s.Length()-s.Engine-s.Own-s.Steal)
}

func (s *Stall) String() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
	text := fmt.Sprintf("%s waited %s for %s; without a core meanwhile: engine %s, client %s; hypervisor steal %s; stopped %s",
		s.Client, ms(time.Duration(s.End-s.Begin)), s.For, ms(s.Engine), ms(s.Own), ms(s.Steal), ms(s.Stop))
	if s.Blocked != "" {
		text += "; the engine was blocked in " + s.Blocked
	}
	if !s.Judged {
		text += "; not judged"
	}
	return text
}

// Stalls are the stalls of a run.
type Stalls struct {
	Above       int           `json:"above_100ms"`
	Unjudged    int           `json:"not_judged"`
	Unexplained int           `json:"unexplained_above_100ms"`
	Longest     time.Duration `json:"longest_unexplained_ns"`
	Worst       []Stall       `json:"worst"` // those with the longest unexplained part first
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

// A waitMeter measures the waits of a correct client.
type waitMeter struct {
	board
	slot    int
	threads int     // how many threads of the engine a request may wait for, one after another
	last    *delays // the last reading; nil: none yet
	looked  time.Time
	longest time.Duration
	blocked map[string]struct{} // where threads of the engine were blocked since the last mark
}

// lookTime is the time between two readings of the delays of threads. So the explanation of a
// wait may include delays from up to lookTime before the wait.
const lookTime = 20 * time.Millisecond

// A mark is the beginning of a wait.
type mark struct {
	at      time.Time
	stopped time.Duration
	before  *delays
}

// newWaitMeter returns a meter for a client's process. A request may need every polling thread of
// the engine, and the thread that hands the request to them.
func newWaitMeter(spec *Spec) (*waitMeter, error) {
	b, err := openBoard()
	return &waitMeter{board: b, slot: spec.slot(), threads: max(len(spec.Cores), 1) + 1}, err
}

// now returns the time less the times for which this process was stopped.
func (g *waitMeter) now() time.Time { return time.Now().Add(-g.stopped(g.slot)) }

func (g *waitMeter) look() {
	g.looked = time.Now()
	g.last, _ = takeDelays(g.engine())
}

func (g *waitMeter) mark() mark {
	if time.Since(g.looked) >= lookTime {
		g.look()
	}
	clear(g.blocked)
	stopped := g.stopped(g.slot) // read this first, because the process may be stopped between the readings
	return mark{time.Now(), stopped, g.last}
}

// peek notes where threads of the engine are blocked, if the wait has been long.
func (g *waitMeter) peek(m mark) {
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

// since ends a wait. If the wait was a stall, it returns the stall, otherwise nil.
func (g *waitMeter) since(m mark, what string) *Stall {
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
