package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Result is what came of a run.
type Result struct {
	Seed     uint64  `json:"seed"`
	Schedule string  `json:"schedule"` // hash of the plan
	Asked    float64 `json:"seconds_asked"`
	Seconds  float64 `json:"seconds"`
	Planned  int     `json:"actions_planned"`
	Actions  int     `json:"actions"`

	Count
	Leaked string `json:"leaked"` // by the engine; empty: nothing

	Killed struct {
		Correct int `json:"correct"`
		Chaos   int `json:"chaos"`
	} `json:"clients_killed"`
	EngineKills int  `json:"engine_kills"`
	EngineStops int  `json:"engine_stops"`
	Apart       bool `json:"users_apart"`     // engine, correct clients and strangers are of different users
	Stopped     int  `json:"clients_stopped"` // and continued
	Processes   int  `json:"processes"`
	Connections int  `json:"connections"` // of correct clients

	// Notice is the longest time from the end of an engine until a client had
	// been told by each of its calls.
	Notice time.Duration `json:"longest_notice_ns"`
	// Ending is the longest time from SIGKILL until an engine had ended, and Start the
	// longest from its process to its service.
	Ending   time.Duration `json:"longest_ending_ns"`
	Start    time.Duration `json:"longest_start_ns"`
	Baseline Holds         `json:"engine_at_first"`
	Holds    Holds         `json:"engine_at_last"`
	Stalls   Stalls        `json:"stalls"` // of correct clients, above 100 ms
	Faults   []string      `json:"faults"`

	past Count // of processes that have ended
}

func newResult(p *Plan, d time.Duration) Result {
	return Result{Seed: p.Seed, Schedule: fmt.Sprintf("%016x", p.Hash()), Asked: d.Seconds(), Planned: len(p.Actions), Faults: []string{}}
}

// judge has faults of data counted as such.
func (r *Result) judge() {
	if r.Log.Most > logBound {
		r.Faults = append(r.Faults, fmt.Sprintf("an engine wrote %d bytes to its log within a second; %d are bearable", r.Log.Most, logBound))
	}
	if len(r.Faults) > 0 && r.Wrong == (Wrong{}) && r.Leaked == "" {
		r.Corruptions = max(r.Corruptions, 1)
	}
}

// OK reports whether nothing was wrong.
func (r *Result) OK() bool {
	return len(r.Faults) == 0 && r.Corruptions == 0 && r.Wrong == (Wrong{}) && r.Leaked == "" && r.Actions == r.Planned && r.Stalls.Unexplained == 0
}

// PrintJSON writes the result as one object.
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
	row("users", "%s", map[bool]string{true: "engine, correct clients and strangers apart", false: "one, for want of root"}[r.Apart])
	row("operations", "%d (%s)", r.Operations, list(r.ByOp))
	row("bytes", "%d moved, %d checked", r.Bytes, r.Checked)
	row("completions", "%d", r.Completions)
	row("corruptions", "%d", r.Corruptions)
	row("lost", "%d", r.Lost)
	row("duplicated", "%d", r.Duplicated)
	row("reordered", "%d", r.Reordered)
	row("leaked", "%s", leaked)
	row("clients stopped", "%d, and continued", r.Stopped)
	row("clients killed", "%d (%d correct, %d chaos)", r.Killed.Correct+r.Killed.Chaos, r.Killed.Correct, r.Killed.Chaos)
	row("engine restarts", "%d (%d killed, %d stopped)", r.EngineKills+r.EngineStops, r.EngineKills, r.EngineStops)
	row("", "at most %v from SIGKILL to the end, %v from a start to service", r.Ending.Round(10*time.Microsecond), r.Start.Round(10*time.Microsecond))
	row("processes", "%d", r.Processes)
	row("connections", "%d made, %d lost with their peer, %d with the engine", r.Connections, r.PeersLost, r.DevicesGone)
	row("done wrong by chaos", "%d things, over %d connections", r.Mischief, r.Lives)
	row("explained", "to correct clients: %s", list(r.Explained))
	row("longest wait", "%v for the engine", time.Duration(r.Stall).Round(10*time.Microsecond))
	row("stalls", "%d above %v; unexplained by the scheduler: %d above %v, longest %v",
		r.Stalls.Above, stallBound, r.Stalls.Unexplained, stallBound, r.Stalls.Longest.Round(10*time.Microsecond))
	if r.Stalls.Unjudged > 0 {
		row("", "%d could not be judged: %v", r.Stalls.Unjudged, errNoDelays)
	}
	for i := range r.Stalls.Worst {
		row("", "%v", &r.Stalls.Worst[i])
	}
	row("engine log", "%d lines, %d bytes, at most %d within a second", r.Log.Lines, r.Log.Bytes, r.Log.Most)
	row("engine gone noticed", "within %v", r.Notice.Round(10*time.Microsecond))
	row("engine holds", "%d descriptors, %d mappings, %d goroutines, %d bytes of heap, %d resident (at first %d, %d, %d, %d, %d)",
		r.Holds.Descriptors, r.Holds.Mappings, r.Holds.Goroutines, r.Holds.Heap, r.Holds.Resident,
		r.Baseline.Descriptors, r.Baseline.Mappings, r.Baseline.Goroutines, r.Baseline.Heap, r.Baseline.Resident)
	for _, f := range r.Faults {
		row("FAULT", "%s", f)
	}
	row("verdict", "%s", map[bool]string{true: "OK", false: "NOT OK"}[r.OK()])
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	nameWidth = 23
	rowWidth  = 80
)

// wrapped is a row of at most 80 columns a line, unless a word is longer, or the text
// has lines of its own.
func wrapped(name, text string) string {
	line := fmt.Sprintf("%-*s", nameWidth, name)
	if strings.Contains(text, "\n") {
		return line + text + "\n"
	}
	out := ""
	for i, word := range strings.Fields(text) {
		if i > 0 && len(line)+1+len(word) > rowWidth {
			out += line + "\n"
			line = strings.Repeat(" ", nameWidth)
		} else if i > 0 {
			line += " "
		}
		line += word
	}
	return out + line + "\n"
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
