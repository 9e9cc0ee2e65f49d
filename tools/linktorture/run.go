//go:build linux && (amd64 || arm64)

package linktorture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/verdict"
)

// Config configures Run.
type Config struct {
	Seed     uint64
	Duration time.Duration
	Argv     []string // the command line that runs this program so that it calls Process
}

// A Result is the outcome of a run.
type Result struct {
	Seed     uint64            `json:"seed"`
	Schedule string            `json:"schedule"` // hash of the plan
	Seconds  float64           `json:"seconds"`
	Planned  int               `json:"attacks_planned"`
	Attacks  int               `json:"attacks"`
	UCX      bool              `json:"ucx"` // nicless-ucx was there
	RoCE     Count             `json:"over_roce"`
	Pool     Count             `json:"over_pool"`
	Hostile  map[string]uint64 `json:"hostile_actions"` // by kind
	Seen     Seen              `json:"seen_by_engine_a"`
	Findings []string          `json:"findings"` // attacks that succeed by design; see the package comment
	// EngineShare and ClientShare are the parts of the time in which threads of the engines and of the
	// correct clients wanted a core that they had one.
	EngineShare float64              `json:"engine_share_of_a_core"`
	ClientShare float64              `json:"client_share_of_a_core"`
	Faults      []*verdict.Fault     `json:"faults"`
	Kinds       map[verdict.Kind]int `json:"faults_by_kind"`
	Verdict     verdict.Kind         `json:"verdict"` // the worst kind
}

// Seen is what engine a, which all attacks reach, has counted: they have reached it.
type Seen struct {
	Strangers uint64 `json:"strangers"`   // packets from an address that is no engine's
	Forged    uint64 `json:"forged"`      // packets in the name of its peer that the peer has not sent
	Faults    uint64 `json:"pool_faults"` // times that it has given up the link with the scribbler
}

// OK reports whether the run was complete, moved data over both links, and found no fault.
func (r *Result) OK() bool {
	return r.Verdict == verdict.OK && r.Attacks == r.Planned && r.RoCE.Operations > 0 && r.Pool.Operations > 0
}

// decide sets the verdict.
func (r *Result) decide() {
	if len(r.Faults) == 0 && (r.Attacks != r.Planned || r.RoCE.Operations == 0 || r.Pool.Operations == 0) {
		r.Faults = append(r.Faults, verdict.New(verdict.Failed, "all attacks, and operations over both links",
			"%d of %d attacks, %d operations over RoCE, %d over the pool", r.Attacks, r.Planned, r.RoCE.Operations, r.Pool.Operations))
	}
	r.Verdict = verdict.Worst(r.Faults)
	r.Kinds = verdict.Counts(r.Faults)
}

// Run carries out the plan that the seed determines. The error says why that was not possible.
func Run(ctx context.Context, cfg Config) (Result, error) {
	events := make(chan event, 16)
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	s := spec{Role: roleSupervisor, Seed: cfg.Seed, Duration: cfg.Duration, Argv: cfg.Argv}
	p, err := launch(cfg.Argv, s, "the supervisor", attr, events)
	if err != nil {
		return Result{}, fmt.Errorf("torture: new user and network namespaces (this host must allow unprivileged ones): %w", err)
	}
	defer p.in.Close()
	var result *Result
	var failed error
	for {
		select {
		case e := <-events:
			if e.report.Result != nil {
				result = e.report.Result
			}
			if e.report.Error != "" {
				failed = fmt.Errorf("torture: %s", e.report.Error)
			} else if e.report.Fault != nil {
				failed = fmt.Errorf("torture: %w", e.report.Fault)
			}
			switch {
			case e.exit != nil && result != nil:
				return *result, failed
			case e.exit != nil:
				return Result{}, errors.Join(failed, fmt.Errorf("torture: the supervisor has ended: %v: %s", e.exit, &p.stderr))
			}
		case <-ctx.Done():
			_ = p.in.Close() // it ends everything that it has started
			_ = p.cmd.Process.Kill()
			<-p.ended
			return Result{}, ctx.Err()
		}
	}
}

// PrintJSON writes the result as one JSON object.
func (r *Result) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) (err error) {
	row := func(name, format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, "%-23s%s\n", name, fmt.Sprintf(format, args...))
		}
	}
	row("seed", "%d", r.Seed)
	row("schedule", "%s, %d of %d attacks", r.Schedule, r.Attacks, r.Planned)
	row("seconds", "%.1f", r.Seconds)
	row("ucx", "%s", map[bool]string{true: "a port that the stranger finds", false: "none: nicless-ucx is not there"}[r.UCX])
	for _, l := range []struct {
		name string
		c    *Count
	}{{"over RoCE", &r.RoCE}, {"over the pool", &r.Pool}} {
		row(l.name, "%d operations, %d bytes, %d bytes checked", l.c.Operations, l.c.Bytes, l.c.Checked)
		row("", "longest wait for a batch %v", l.c.Longest.Round(10*time.Microsecond))
	}
	for k := range kinds {
		row("by the "+k.String(), "%d", r.Hostile[k.String()])
	}
	row("reached engine a", "%d packets of strangers, %d forged ones; %d times the scribbler's", r.Seen.Strangers, r.Seen.Forged, r.Seen.Faults)
	row("", "words ended its link")
	for _, f := range r.Findings {
		row("FINDING", "%s", f)
	}
	row("share of a core", "engines %.0f%%, correct clients %.0f%%, when they wanted one", 100*r.EngineShare, 100*r.ClientShare)
	for k := verdict.WrongBytes; k > verdict.OK; k-- {
		if k != verdict.Stall { // links lose packets, so no wait for a batch is one
			row(k.String(), "%d", r.Kinds[k])
		}
	}
	for _, f := range r.Faults {
		row("FAULT", "%s", f)
	}
	row("verdict", "%s", verdict.Title(r.Verdict))
	return err
}
