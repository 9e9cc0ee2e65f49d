package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless"
)

// Config says what Run does.
type Config struct {
	Seed     uint64
	Duration time.Duration
	// Cores get a thread of the engine each; nil means one thread anywhere.
	Cores []int
	// Argv is the command line by which this program becomes Process.
	Argv []string
	// Progress, unless nil, is called now and then.
	Progress func(done, of time.Duration, r *Result)
}

const (
	// patience is how long anything may take that is waited for.
	patience = 20 * time.Second
	// settleTime is how long an engine may take to give back what clients had.
	settleTime = 10 * time.Second
)

// A run is the supervisor.
type run struct {
	cfg    Config
	plan   Plan
	dir    string
	events chan event
	result Result

	engine   *process
	startAt  time.Time // it was started
	up       bool      // it serves
	upAt     time.Time // since then
	endedAt  time.Time // it was killed or stopped; if it was not, the one before
	baseline *Holds
	holds    *Holds // as reported last
	pairs    [pairs]pair
	visitor  *process
	orphans  []Orphan // of the visitor
	chaos    [chaosSlots]*process
	all      map[*process]struct{} // that live
	closing  bool                  // the last phase: chaos clients may see the engine go

	board    board
	resuming sync.WaitGroup // processes that are stopped
	resumed  time.Time      // by then they go on
}

// Run carries out the plan of the seed and returns what came of it; the error
// is of what kept it from doing so. What the engine or a client did wrong is in
// the Result.
func Run(ctx context.Context, cfg Config) (Result, error) {
	dir, apart, err := makeDir()
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	b, err := newBoard()
	if err != nil {
		return Result{}, err
	}
	defer b.mem.Close()
	r := &run{
		board: b,
		cfg:   cfg, plan: NewPlan(cfg.Seed, cfg.Duration), dir: dir,
		events: make(chan event, 256), all: make(map[*process]struct{}),
	}
	r.result = newResult(&r.plan, cfg.Duration)
	r.result.Apart = apart
	begin := time.Now()
	err = r.do(ctx)
	r.end()
	r.resuming.Wait()
	r.result.Seconds = time.Since(begin).Seconds()
	r.result.judge()
	if errors.Is(err, errFault) {
		err = nil
	}
	return r.result, err
}

// errFault ends a run: something is wrong, and the result says what.
var errFault = errors.New("torture: fault")

func (r *run) fault(format string, args ...any) error {
	r.result.Faults = append(r.result.Faults, fmt.Sprintf(format, args...))
	return errFault
}

func (r *run) socket() string { return filepath.Join(r.dir, "engine") }

func (r *run) start(spec Spec, name string) (*process, error) {
	spec.Socket, spec.Cores = r.socket(), r.cfg.Cores
	spec.Stay = r.ends()%2 == 0 // every other engine keeps pairs apart
	var files []*os.File
	if spec.Role == roleClient || spec.Role == roleVisitor {
		files = append(files, r.board.mem.File()) // as boardFile
	}
	p, err := start(r.cfg.Argv, spec, name, files, r.events)
	if err == nil {
		p.born = r.ends()
		r.all[p] = struct{}{}
		r.result.Processes++
	}
	return p, err
}

// ends returns how many engines have been ended.
func (r *run) ends() int { return r.result.EngineKills + r.result.EngineStops }

// do is the run.
func (r *run) do(ctx context.Context) error {
	if err := r.startEngine(); err != nil {
		return err
	}
	if err := r.until(ctx, "the engine to serve", patience, func() bool { return r.up }); err != nil {
		return err
	}
	if err := r.measure(ctx); err != nil {
		return err
	}
	for i := range r.pairs {
		for end := range 2 {
			if err := r.startClient(i, end); err != nil {
				return err
			}
		}
	}
	var err error
	if r.visitor, err = r.start(Spec{Role: roleVisitor, Seed: r.cfg.Seed}, "the visitor"); err != nil {
		return err
	}
	for i := range r.plan.Chaos {
		if err := r.startChaos(&r.plan.Chaos[i]); err != nil {
			return err
		}
	}
	begin := time.Now()
	due := time.Duration(0)
	for i := range r.plan.Actions {
		a := &r.plan.Actions[i]
		due += a.Pause
		if r.cfg.Progress != nil {
			r.sum()
			r.cfg.Progress(time.Since(begin), r.cfg.Duration, &r.result)
		}
		if err := r.during(ctx, max(a.Pause/2, time.Until(begin.Add(due)))); err != nil {
			return err
		}
		if err := r.nextEngine(ctx); err != nil {
			return err
		}
		if err := r.act(a); err != nil {
			return err
		}
		r.result.Actions++
	}
	return r.finish(ctx)
}

// act carries out an action.
func (r *run) act(a *Action) error {
	switch a.Deed {
	case KillChaos:
		r.chaos[a.Slot].kill()
		r.result.Killed.Chaos++
		return r.startChaos(a)
	case KillClient:
		return r.killClient(a.Slot/2, a.Slot%2)
	case PauseChaos:
		r.pause(r.chaos[a.Slot], a.Length)
		return nil
	case PauseClient:
		r.pause(r.pairs[a.Slot/2].ends[a.Slot%2].p, a.Length)
		return nil
	case PausePair:
		for end := range 2 {
			r.pause(r.pairs[a.Slot].ends[end].p, a.Length)
		}
		return nil
	}
	for i := range r.pairs {
		r.pairs[i].broken = r.pairs[i].epoch
	}
	r.endedAt, r.up = time.Now(), false
	r.engine.ends = true
	if a.Deed == KillEngine {
		r.result.EngineKills++
		r.engine.kill()
	} else {
		r.result.EngineStops++
		_ = r.engine.cmd.Process.Signal(syscall.SIGTERM)
	}
	return nil // the next one is started when this one has ended
}

func (r *run) startEngine() (err error) {
	spec := Spec{Role: roleEngine}
	if r.result.Apart {
		spec.User = engineUser
	}
	r.startAt = time.Now()
	if r.engine, err = r.start(spec, fmt.Sprintf("engine %d", r.ends())); err == nil {
		r.board.setEngine(r.engine.cmd.Process.Pid)
	}
	return err
}

// nextEngine waits until an engine serves. If the one before does not end, its threads
// wait in the kernel for something that some client has.
func (r *run) nextEngine(ctx context.Context) error {
	err := r.until(ctx, "the next engine to serve", patience, func() bool { return r.up })
	if errors.Is(err, errFault) && r.engine.ends && time.Since(r.endedAt) > patience {
		return r.fault("%s was told to end %v ago and has not: its threads wait in %s",
			r.engine.name, time.Since(r.endedAt).Round(time.Millisecond), blockedIn(r.engine.cmd.Process.Pid))
	}
	return err
}

func (r *run) startChaos(a *Action) (err error) {
	spec := Spec{Role: roleChaos, Seed: a.Seed, Chaos: a.Chaos}
	if a.Chaos == Impostor {
		spec.Orphans = r.orphans
	}
	if r.result.Apart && a.Chaos.stranger() {
		spec.User = strangeUser
	}
	for i := range r.pairs {
		for end := range 2 {
			if ready := r.pairs[i].ends[end].ready; ready != nil {
				spec.Others = append(spec.Others, ready.Lanes...)
			}
		}
	}
	r.chaos[a.Slot], err = r.start(spec, fmt.Sprintf("%v with seed %#x", a.Chaos, a.Seed))
	return err
}

// measure takes what the engine holds without clients, after one has been there.
func (r *run) measure(ctx context.Context) error {
	c, err := nicless.Dial(r.socket())
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	// The engine has to notice that first.
	if err := r.during(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	h, err := r.held(ctx)
	r.baseline = &h
	return err
}

// held asks the engine what it holds.
func (r *run) held(ctx context.Context) (Holds, error) {
	r.holds = nil
	r.engine.tell(Order{Do: doHold})
	if err := r.until(ctx, "the engine to say what it holds", patience, func() bool { return r.holds != nil }); err != nil {
		return Holds{}, err
	}
	return *r.holds, nil
}
