//go:build linux && (amd64 || arm64)

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

// Config configures Run.
type Config struct {
	Seed     uint64
	Duration time.Duration
	// Cores are the cores that each run a thread of the engine. Nil means one thread on
	// any core.
	Cores []int
	// Argv is the command line that runs this program so that it calls Process.
	Argv []string
	// Progress, unless nil, is called after each action.
	Progress func(done, of time.Duration, r *Result)
}

const (
	// waitLimit is the most time that one step of the supervisor may take.
	waitLimit = 20 * time.Second
	// settleTime is how long an engine may take to free the resources of ended clients.
	settleTime = 10 * time.Second
)

// A run is the state of the supervisor.
type run struct {
	cfg    Config
	plan   Plan
	dir    string
	events chan event
	result Result

	engine        *process
	startAt       time.Time // when the engine was started
	serving       bool      // the engine accepts clients
	servingSince  time.Time // since when it accepts clients
	endedAt       time.Time // when this engine or the previous one was killed or stopped
	baseline      *Resources
	lastResources *Resources // the last report of the engine's resources
	pairs         [pairs]pair
	visitor       *process
	orphans       []Orphan // the visitor's orphans
	hostile       [hostileSlots]*process
	all           map[*process]struct{} // all processes that have not ended
	closing       bool                  // the run is in its last phase, in which the engine ends

	board    board
	resuming sync.WaitGroup // one for each stopped process
	resumed  time.Time      // when the last stopped process continues
}

// Run carries out the plan that the seed determines. The Result has everything that the engine
// or a client did wrong. The error says why the plan could not be carried out.
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
	r.result.SeparateUsers = apart
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

// errFault ends a run that has found a fault. The fault is in the result.
var errFault = errors.New("torture: fault")

func (r *run) fault(format string, args ...any) error {
	r.result.Faults = append(r.result.Faults, fmt.Sprintf(format, args...))
	return errFault
}

func (r *run) socket() string { return filepath.Join(r.dir, "engine") }

func (r *run) start(spec Spec, name string) (*process, error) {
	spec.Socket, spec.Cores = r.socket(), r.cfg.Cores
	spec.Stay = r.enginesEnded()%2 == 0 // true for half of the engines: these do not move clients between their threads
	var files []*os.File
	if spec.Role == roleClient || spec.Role == roleVisitor {
		files = append(files, r.board.mem.File()) // it becomes the descriptor boardFile
	}
	p, err := start(r.cfg.Argv, spec, name, files, r.events)
	if err == nil {
		p.enginesBefore = r.enginesEnded()
		r.all[p] = struct{}{}
		r.result.Processes++
	}
	return p, err
}

// enginesEnded returns how many engines were killed or stopped.
func (r *run) enginesEnded() int { return r.result.EngineKills + r.result.EngineStops }

// do carries out the plan.
func (r *run) do(ctx context.Context) error {
	if err := r.startEngine(); err != nil {
		return err
	}
	if err := r.until(ctx, "the engine to serve", waitLimit, func() bool { return r.serving }); err != nil {
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
	for i := range r.plan.Hostile {
		if err := r.startHostile(&r.plan.Hostile[i]); err != nil {
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
	switch a.Kind {
	case KillHostile:
		r.hostile[a.Slot].kill()
		r.result.Killed.Hostile++
		return r.startHostile(a)
	case KillClient:
		return r.killClient(a.Slot/2, a.Slot%2)
	case PauseHostile:
		r.pause(r.hostile[a.Slot], a.Length)
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
	r.endedAt, r.serving = time.Now(), false
	r.engine.ending = true
	if a.Kind == KillEngine {
		r.result.EngineKills++
		r.engine.kill()
	} else {
		r.result.EngineStops++
		_ = r.engine.cmd.Process.Signal(syscall.SIGTERM)
	}
	return nil // nextEngine starts the next engine when this one has ended
}

func (r *run) startEngine() (err error) {
	spec := Spec{Role: roleEngine}
	if r.result.SeparateUsers {
		spec.User = engineUser
	}
	r.startAt = time.Now()
	if r.engine, err = r.start(spec, fmt.Sprintf("engine %d", r.enginesEnded())); err == nil {
		r.board.setEngine(r.engine.cmd.Process.Pid)
	}
	return err
}

// nextEngine waits until the next engine serves. If the previous engine does not end, a client
// holds something for which threads of that engine wait in the kernel.
func (r *run) nextEngine(ctx context.Context) error {
	err := r.until(ctx, "the next engine to serve", waitLimit, func() bool { return r.serving })
	if errors.Is(err, errFault) && r.engine.ending && time.Since(r.endedAt) > waitLimit {
		return r.fault("%s was told to end %v ago but still runs: its threads are blocked in %s",
			r.engine.name, time.Since(r.endedAt).Round(time.Millisecond), blockedIn(r.engine.cmd.Process.Pid))
	}
	return err
}

func (r *run) startHostile(a *Action) (err error) {
	spec := Spec{Role: roleHostile, Seed: a.Seed, Attack: a.Attack}
	if a.Attack == Impostor {
		spec.Orphans = r.orphans
	}
	if r.result.SeparateUsers && a.Attack.exhausts() {
		spec.User = hostileUser
	}
	for i := range r.pairs {
		for end := range 2 {
			if ready := r.pairs[i].ends[end].ready; ready != nil {
				spec.Victims = append(spec.Victims, ready.Flows...)
			}
		}
	}
	r.hostile[a.Slot], err = r.start(spec, fmt.Sprintf("%v with seed %#x", a.Attack, a.Seed))
	return err
}

// measure asks the engine for its resources when it has no clients, after it has had one.
func (r *run) measure(ctx context.Context) error {
	c, err := nicless.Dial(r.socket())
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	// First the engine must notice that the connection has ended.
	if err := r.during(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	h, err := r.askResources(ctx)
	r.baseline = &h
	return err
}

// askResources asks the engine for its resources.
func (r *run) askResources(ctx context.Context) (Resources, error) {
	r.lastResources = nil
	r.engine.tell(Order{Do: doResources})
	if err := r.until(ctx, "the engine to report its resources", waitLimit, func() bool { return r.lastResources != nil }); err != nil {
		return Resources{}, err
	}
	return *r.lastResources, nil
}
