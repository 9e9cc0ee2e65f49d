//go:build linux && (amd64 || arm64)

package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/paragraph"
	"github.com/nicless/nicless/internal/verdict"
)

// A Result is the outcome of a run.
type Result struct {
	Seed      uint64  `json:"seed"`
	Schedule  string  `json:"schedule"` // hash of the plan
	Requested float64 `json:"seconds_asked"`
	Seconds   float64 `json:"seconds"`
	Planned   int     `json:"actions_planned"`
	Actions   int     `json:"actions"`

	Count
	Leaked string `json:"leaked"` // resources that the engine leaked; empty: nothing

	Killed struct {
		Correct int `json:"correct"`
		Hostile int `json:"hostile"`
	} `json:"clients_killed"`
	EngineKills   int  `json:"engine_kills"`
	EngineStops   int  `json:"engine_stops"`
	SeparateUsers bool `json:"separate_users"`  // engine, correct and hostile clients run as different users
	Stopped       int  `json:"clients_stopped"` // times that a client was stopped by SIGSTOP and continued
	Processes     int  `json:"processes"`
	Connections   int  `json:"connections"` // connections of correct clients

	// Notice is the longest time from the end of an engine until all calls of a client
	// had reported that end.
	Notice time.Duration `json:"longest_notice_ns"`
	// Ending is the longest time from SIGKILL to the end of an engine. Start is the longest
	// time from the start of an engine's process until the engine accepted clients.
	Ending   time.Duration `json:"longest_ending_ns"`
	Start    time.Duration `json:"longest_start_ns"`
	Baseline Resources     `json:"engine_at_first"`
	Final    Resources     `json:"engine_at_last"`
	Stalls   Stalls        `json:"stalls"` // waits of correct clients that were longer than 100 ms
	// EngineShare and ClientShare are the parts of the time in which threads of the engine and of correct
	// clients wanted a core that they had one.
	EngineShare float64              `json:"engine_share_of_a_core"`
	ClientShare float64              `json:"client_share_of_a_core"`
	Faults      []*verdict.Fault     `json:"faults"`
	Kinds       map[verdict.Kind]int `json:"faults_by_kind"`
	Verdict     verdict.Kind         `json:"verdict"` // the worst kind

	past Count // sum of the counts of processes that have ended
}

func newResult(p *Plan, d time.Duration) Result {
	return Result{Seed: p.Seed, Schedule: fmt.Sprintf("%016x", p.Hash()), Requested: d.Seconds(),
		Planned: len(p.Actions), Faults: []*verdict.Fault{}}
}

// conclude adds the faults that only the whole run shows, and the verdict.
func (r *run) conclude() {
	if most := r.result.Log.Most; most > logBound {
		_ = r.broken("an engine", fmt.Sprintf("at most %d bytes of log within a second", logBound), "%d bytes", most)
	}
	r.result.EngineShare, r.result.ClientShare = r.loads.engine.Share(), r.loads.clients.Share()
	for who, l := range map[string]*verdict.Load{"the engine": &r.loads.engine,
		"the correct clients": &r.loads.clients} {
		if f := l.Check(who); f != nil {
			r.note(f)
		}
	}
	r.result.decide()
}

// decide sets the verdict. Counts without a fault of their kind become faults, so that none is missed.
func (r *Result) decide() {
	has := verdict.Counts(r.Faults)
	for _, c := range []struct {
		kind verdict.Kind
		n    uint64
	}{{verdict.Lost, r.Lost}, {verdict.Repeated, r.Duplicated + r.Reordered}} {
		if c.n > 0 && has[c.kind] == 0 {
			r.Faults = append(r.Faults, verdict.New(c.kind, "one completion of each work request, in order",
				"%d completions, counted by clients that have ended", c.n))
		}
	}
	if len(r.Faults) == 0 && r.Actions != r.Planned {
		r.Faults = append(r.Faults,
			verdict.New(verdict.Failed, fmt.Sprintf("%d actions", r.Planned), "%d actions", r.Actions))
	}
	r.Verdict = verdict.Worst(r.Faults)
	r.Kinds = verdict.Counts(r.Faults)
}

// OK reports whether the run was complete and without faults, on a machine that allowed a verdict.
func (r *Result) OK() bool { return r.Verdict == verdict.OK && r.Actions == r.Planned }

// PrintJSON writes the result as one JSON object.
func (r *Result) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	leaked := r.Leaked
	if leaked == "" {
		leaked = "nothing"
	}
	var b strings.Builder
	row := func(name, format string, args ...any) {
		b.WriteString(wrapped(name, fmt.Sprintf(format, args...)))
	}
	row("seed", "%d", r.Seed)
	row("schedule", "%s, %d of %d actions", r.Schedule, r.Actions, r.Planned)
	row("seconds", "%.1f", r.Seconds)
	row("users", "%s", map[bool]string{true: "engine, correct and hostile clients have separate users",
		false: "all processes have the same user (others need root)"}[r.SeparateUsers])
	row("operations", "%d (%s)", r.Operations, list(r.ByOp))
	row("bytes", "%d moved, %d checked", r.Bytes, r.Checked)
	row("completions", "%d", r.Completions)
	row("wrong bytes", "%d", r.Kinds[verdict.WrongBytes])
	row("lost completions", "%d", r.Lost)
	row("repeated completions", "%d", r.Duplicated)
	row("reordered completions", "%d", r.Reordered)
	row("leaked by the engine", "%s", leaked)
	row("clients paused", "%d", r.Stopped)
	row("clients killed", "%d (%d correct, %d hostile)", r.Killed.Correct+r.Killed.Hostile, r.Killed.Correct, r.Killed.Hostile)
	row("engine restarts", "%d (%d killed, %d stopped)", r.EngineKills+r.EngineStops, r.EngineKills, r.EngineStops)
	row("", "longest times: %v from SIGKILL to its end, %v from start to ready", r.Ending.Round(10*time.Microsecond), r.Start.Round(10*time.Microsecond))
	row("processes started", "%d", r.Processes)
	row("connections", "%d between correct clients; %d clients lost their peer, %d lost the engine", r.Connections, r.PeersLost, r.DevicesGone)
	row("hostile actions", "%d by hostile clients, on %d connections", r.HostileActions, r.HostileConnections)
	row("explanations", "to correct clients: %s", list(r.Explained))
	row("longest wait", "%v, of a correct client for the engine", time.Duration(r.Stall).Round(10*time.Microsecond))
	row("stalls", "%d waits above %v; without delays that the kernel counts %d are above %v, the longest is %v",
		r.Stalls.Above, stallBound, r.Stalls.Unexplained, stallBound,
		r.Stalls.Longest.Round(10*time.Microsecond))
	row("", "%d are explained only by threads that the kernel blocked; %d are not judged", r.Stalls.Blocked, r.Stalls.Undecided)
	for i := range r.Stalls.Worst {
		row("", "%v", &r.Stalls.Worst[i])
	}
	row("engine log", "%d lines, %d bytes, at most %d within a second", r.Log.Lines, r.Log.Bytes, r.Log.Most)
	row("engine end noticed", "by each client within %v", r.Notice.Round(10*time.Microsecond))
	row("engine resources", "at the end %d descriptors, %d mappings, %d goroutines, %d bytes of heap, %d bytes resident (at the start %d, %d, %d, %d, %d)",
		r.Final.Descriptors, r.Final.Mappings, r.Final.Goroutines, r.Final.Heap, r.Final.Resident,
		r.Baseline.Descriptors, r.Baseline.Mappings, r.Baseline.Goroutines, r.Baseline.Heap,
		r.Baseline.Resident)
	row("share of a core", "engine %.0f%%, correct clients %.0f%%, of the time in which they wanted one (%.0f%% is enough)",
		100*r.EngineShare, 100*r.ClientShare, 100*verdict.LeastShare)
	row("no answer", "%d", r.Kinds[verdict.NoAnswer])
	row("other failures", "%d", r.Kinds[verdict.Failed])
	row("not judged", "%d", r.Kinds[verdict.Undecided])
	for _, f := range r.Faults {
		row("FAULT", "%s", f.String()) // not Error, which has no evidence
	}
	row("verdict", "%s", verdict.Title(r.Verdict))
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	nameWidth = 23
	rowWidth  = 80
)

// wrapped returns a row in lines of at most 80 columns. It does not break words, and does not
// change a text that already has several lines.
func wrapped(name, text string) string {
	line := fmt.Sprintf("%-*s", nameWidth, name)
	if strings.Contains(text, "\n") {
		return line + text + "\n"
	}
	return line + paragraph.Fold(text, nameWidth, rowWidth, strings.Repeat(" ", nameWidth)) + "\n"
}

// list returns counts by name.
func list(m map[string]uint64) string {
	var s []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		s = append(s, fmt.Sprintf("%s %d", name, m[name]))
	}
	if s == nil {
		return "nothing"
	}
	return strings.Join(s, ", ")
}
