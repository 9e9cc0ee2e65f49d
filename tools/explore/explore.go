//go:build linux && (amd64 || arm64)

package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/trace/text"
)

// Config says what Explore does.
type Config struct {
	Seed    uint64        // the first seed; the others follow it
	Runs    int           // at most so many; 0: as many as the time allows, or MostRuns
	Time    time.Duration // at most so long; 0: until all runs are made
	Shrink  bool          // shorten the plan of a run that fails
	Planted *Plant        // for all runs; nil: nothing

	// Progress is called now and then; nil: never.
	Progress func(r *Result)
	// Failing is called when a run has failed, before its plan is shortened; nil: never.
	Failing func(r *Result)
}

// A Result says what Explore has found. It ends at the first fault.
type Result struct {
	Seed     uint64         `json:"seed"` // the first one
	Runs     int            `json:"runs"`
	Done     Counts         `json:"done"`
	Virtual  time.Duration  `json:"virtual_ns"` // time that has passed in all runs
	Took     time.Duration  `json:"took_ns"`    // without shrinking
	Verdict  verdict.Kind   `json:"verdict"`
	Failed   *uint64        `json:"failed_seed,omitempty"` // of the run that has the fault; nil: no fault
	Fault    *verdict.Fault `json:"fault,omitempty"`
	Steps    int            `json:"steps,omitempty"`    // of the plan that fails
	Shrunk   int            `json:"shrunk,omitempty"`   // steps of it that are left
	Attempts int            `json:"attempts,omitempty"` // runs that shrinking has taken
	Trace    string         `json:"trace,omitempty"`    // file of the run that fails
	Record   *Record        `json:"-"`                  // nil: no fault
}

// OK reports whether there is no fault.
func (r *Result) OK() bool { return r.Fault == nil }

// MostAttempts is how many runs shrinking takes at most. A run takes some milliseconds, and a plan of 100
// steps needs some hundred to become one of three.
const MostAttempts = 2000

// MostRuns is the most runs: more than a week's.
const MostRuns = 1 << 30

// MostSeed is the greatest first seed: those that follow it do not wrap around.
const MostSeed = math.MaxUint64 - MostRuns

// Explore runs plans, one seed after another, until one fails. Cancelling ctx ends it after a run, and ends
// shrinking with the shortest plan so far, without error.
func Explore(ctx context.Context, c Config) (*Result, error) {
	if c.Seed > MostSeed {
		return nil, fmt.Errorf("explore: seed %d; at most %d is possible", c.Seed, uint64(MostSeed))
	}
	if c.Runs < 0 || c.Runs > MostRuns {
		return nil, fmt.Errorf("explore: %d runs; 0 to %d are possible", c.Runs, MostRuns)
	}
	if c.Runs == 0 {
		c.Runs = MostRuns
	}
	r := &Result{Seed: c.Seed}
	began := time.Now()
	for seed := c.Seed; r.Runs < c.Runs && ctx.Err() == nil; seed++ {
		if c.Time > 0 && time.Since(began) >= c.Time {
			break
		}
		p := Draw(seed)
		if c.Planted != nil {
			p.Plant = c.Planted
			if err := p.Check(); err != nil {
				return nil, err
			}
		}
		o, err := Execute(p)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		r.add(o)
		if o.Fault != nil {
			r.Failed, r.Steps = &seed, len(p.Steps)
			r.Took = time.Since(began)
			r.Fault, r.Verdict = o.Fault, o.Fault.Kind
			if c.Failing != nil {
				c.Failing(r)
			}
			r.fail(ctx, p, o, c.Shrink)
			break
		}
		if c.Progress != nil && r.Runs%32 == 0 {
			r.Took = time.Since(began)
			c.Progress(r)
		}
	}
	if r.Fault == nil {
		r.Took = time.Since(began)
	}
	return r, nil
}

func (r *Result) add(o *Outcome) {
	r.Runs++
	r.Virtual += o.Time
	r.Done.Work += o.Seen.Work
	r.Done.Completions += o.Seen.Completions
	r.Done.Errors += o.Seen.Errors
	r.Done.Flushed += o.Seen.Flushed
	r.Done.Events += o.Seen.Events
}

// fail notes the fault of a plan, and shortens the plan. If the run had no watch, it is made again with
// one, as far as it fails then too, so that its trace says what the device did.
func (r *Result) fail(ctx context.Context, p *Plan, o *Outcome, shrink bool) {
	kind := o.Fault.Kind
	if shrink {
		p = Shrink(ctx, p, MostAttempts, func(p *Plan) bool {
			r.Attempts++
			again, err := Execute(p)
			if err != nil || again.Fault == nil || again.Fault.Kind != kind {
				return false
			}
			o = again
			return true
		})
		r.Shrunk = len(p.Steps)
	}
	if !p.Watch {
		watched := clone(p)
		watched.Watch = true
		if again, err := Execute(watched); err == nil && again.Fault != nil && again.Fault.Kind == kind {
			p, o = watched, again
		}
	}
	r.Fault, r.Verdict = o.Fault, kind
	r.Record = &Record{p, o.Fault, o.Events}
}

// Print writes the result as text.
func (r *Result) Print(w io.Writer) error {
	rate := float64(r.Runs) / max(r.Took.Seconds(), 1e-9)
	_, err := fmt.Fprintf(w, "seeds            %d to %d, %d runs (%.0f in a second)\n"+
		"work requests    %d\ncompletions      %d: %d with an error, %d flushed\nvirtual time     %v\n",
		r.Seed, r.Seed+uint64(max(r.Runs, 1))-1, r.Runs, rate, r.Done.Work,
		r.Done.Completions, r.Done.Errors, r.Done.Flushed,
		r.Virtual.Round(time.Second))
	if err != nil {
		return err
	}
	if f := r.Fault; f != nil {
		_, err = fmt.Fprintf(w, "seed %-11d %v at %s\n"+
			"  expected       %s\n  found          %s\nplan             %s\n",
			*r.Failed, f.Kind, who(f), f.Expected, f.Found, r.plan())
		if err == nil && r.Record != nil && len(r.Record.Plan.Steps) <= mostShown {
			_, err = fmt.Fprintf(w, "  %s\n", strings.Join(r.Record.Plan.Lines(), "\n  "))
		}
		if err == nil && r.Trace != "" {
			_, err = fmt.Fprintf(w, "trace            %s\n", text.Plain(r.Trace))
		}
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "verdict          %s\n", verdict.Title(r.Verdict))
	return err
}

func who(f *verdict.Fault) string {
	if f.Who == "" {
		return "the end"
	}
	return f.Who
}

func (r *Result) plan() string {
	if r.Attempts == 0 {
		return count(r.Steps, "step")
	}
	return fmt.Sprintf("%s of %d are left after %s", count(r.Shrunk, "step"), r.Steps, count(r.Attempts, "run"))
}

// PrintJSON writes the result as one JSON object.
func (r *Result) PrintJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
