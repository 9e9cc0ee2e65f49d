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
	"github.com/nicless/nicless/internal/verdict"
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
	// Hang, unless 0, is how long posted work of correct clients may take in place of 10 s.
	Hang time.Duration
	// Progress, unless nil, is called after each action.
	Progress func(done, of time.Duration, r *Result)

	// For tests:
	started    func(p *process) // unless nil, called for each process that was started
	change     func(p *Plan)    // unless nil, changes the plan
	freeWithin time.Duration    // unless 0, replaces freeTime
}

const (
	// waitLimit is the most time that one step of the supervisor may take.
	waitLimit = 20 * time.Second
	// freeTime is how long an engine may take to free the resources of ended clients.
	freeTime = 10 * time.Second
)

// A run is the state of the supervisor.
type run struct {
	cfg    Config
	plan   Plan
	dir    string
	events chan event
	result Result

	engine        *process
	startAt       time.Duration // time at which the engine was started
	serving       bool          // whether the engine accepts clients
	servingSince  time.Duration // time at which the engine began to accept clients
	endedAt       time.Duration // time at which this engine or the previous engine was killed or stopped
	baseline      *Resources    // resources of the engine before the clients of the run
	lastResources *Resources    // the last report of the engine's resources
	pairs         [pairs]pair
	visitor       *process
	halfOpen      []HalfOpenQP // the half-open queue pairs of the visitor
	hostile       [hostileSlots]*process
	all           map[*process]struct{} // all processes that have not ended
	leaving       bool                  // whether clients have the order to end, and are not started again
	closing       bool                  // whether the run is in its last phase, in which the engine ends

	board    board
	witness  *verdict.Witness // measures the engine and the correct clients
	endMark  verdict.Mark     // mark taken when the engine got the order to end
	loads    struct{ engine, clients verdict.Load }
	resuming sync.WaitGroup // counts stopped processes that have not been continued
	resumed  time.Duration  // time at which the last stopped process continues
}

// Run carries out the plan that the seed determines. The Result has everything that the engine
// or a client did wrong. The error says why the plan could not be carried out.
func Run(ctx context.Context, cfg Config) (Result, error) {
	dir, remove, apart, err := makeDir()
	if err != nil {
		return Result{}, err
	}
	defer remove()
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
	if cfg.change != nil {
		cfg.change(&r.plan)
	}
	r.witness = verdict.NewWitnessOf(turns(cfg.Cores), b.engines, b.correct)
	defer r.witness.Close()
	r.result = newResult(&r.plan, cfg.Duration)
	r.result.SeparateUsers = apart
	begin := time.Now()
	err = r.do(ctx)
	r.end()
	r.resuming.Wait()
	r.result.Seconds = time.Since(begin).Seconds()
	if err != nil && !errors.Is(err, errFault) && verdict.Worst(r.result.Faults).Corruption() {
		err = r.broken("the supervisor", "the run goes on to its end", "%v", err) // findings are reported all the same
	}
	r.conclude()
	if errors.Is(err, errFault) {
		err = nil
	}
	return r.result, err
}

// errFault ends a run that has found a fault. The fault is in the result.
var errFault = errors.New("torture: fault")

// fault notes a fault and returns errFault.
func (r *run) fault(f *verdict.Fault) error {
	r.note(f)
	return errFault
}

// note notes a fault after which the run goes on.
func (r *run) note(f *verdict.Fault) {
	if len(r.result.Faults) < mostFaults || f.Kind > verdict.Worst(r.result.Faults) {
		r.result.Faults = append(r.result.Faults, f)
	}
}

// broken notes that a rule was broken which no load of the machine excuses.
func (r *run) broken(who, expected, format string, args ...any) error {
	f := verdict.New(verdict.Failed, expected, format, args...)
	f.Who = who
	return r.fault(f)
}

// late notes that a deadline of the supervisor has passed.
func (r *run) late(k verdict.Kind, m verdict.Mark, expected, format string, args ...any) error {
	f := verdict.Late(k, r.between(m), expected, format, args...)
	f.Who = "the supervisor"
	return r.fault(f)
}

// between returns the evidence of a wait of the supervisor.
func (r *run) between(m verdict.Mark) verdict.Evidence {
	return r.witness.Between(m, r.board.engines(), r.board.correct())
}

// mostFaults is how many faults after which a run goes on are kept, unless a later one is worse.
const mostFaults = 20

// measureLoad adds up how much of their cores the engine and the correct clients had.
func (r *run) measureLoad() {
	r.loads.engine.Look(r.board.engines())
	r.loads.clients.Look(r.board.correct())
}

func (r *run) socket() string { return filepath.Join(r.dir, "engine") }

func (r *run) start(spec Spec, name string) (*process, error) {
	spec.Socket, spec.Cores, spec.Hang = r.socket(), r.cfg.Cores, r.cfg.Hang
	// true for half of the engines: these do not move clients between their threads
	spec.Stay = r.enginesEnded()%2 == 0
	var files []*os.File
	if spec.Role != roleEngine {
		files = append(files, r.board.mem.File()) // it becomes the descriptor boardFile
	}
	p, err := start(r.cfg.Argv, spec, name, files, r.events)
	if err == nil {
		p.enginesBefore = r.enginesEnded()
		r.all[p] = struct{}{}
		r.result.Processes++
		if spec.Role != roleEngine {
			r.board.setPID(spec.slot(), p.cmd.Process.Pid)
		}
		if r.cfg.started != nil {
			r.cfg.started(p)
		}
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
	r.visitor, err = r.start(Spec{Role: roleVisitor, Seed: r.cfg.Seed}, "the visitor")
	if err != nil {
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
		r.measureLoad()
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
	r.endMark = r.witness.Begin()
	r.witness.Rest()
	r.endedAt, r.serving = r.endMark.At, false
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
	r.startAt = verdict.Now()
	r.engine, err = r.start(spec, fmt.Sprintf("engine %d", r.enginesEnded()))
	if err == nil {
		r.board.setEngine(r.engine.cmd.Process.Pid)
	}
	return err
}

// nextEngine waits until the next engine serves. If the previous engine does not end, a client
// holds something for which threads of that engine wait in the kernel.
func (r *run) nextEngine(ctx context.Context) error {
	err := r.until(ctx, "the next engine to serve", waitLimit, func() bool { return r.serving })
	if ago := verdict.Now() - r.endedAt; errors.Is(err, errFault) && r.engine.ending && ago > waitLimit {
		return r.late(verdict.NoAnswer, r.endMark, fmt.Sprintf("its end within %v", waitLimit), "%s was told to end %v ago but still runs: its threads are blocked in %s",
			r.engine.name, ago.Round(time.Millisecond), verdict.BlockedIn(r.engine.cmd.Process.Pid))
	}
	return err
}

func (r *run) startHostile(a *Action) (err error) {
	spec := Spec{Role: roleHostile, Seed: a.Seed, Slot: a.Slot, Attack: a.Attack}
	if a.Attack == Impostor {
		spec.HalfOpen = r.halfOpen
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

// measure queries the engine's resources when it has no clients, after it has had one.
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
	h, err := r.queryResources(ctx)
	r.baseline = &h
	return err
}

// queryResources queries the engine for its resources.
func (r *run) queryResources(ctx context.Context) (Resources, error) {
	r.lastResources = nil
	r.engine.send(Order{Do: doResources})
	if err := r.until(ctx, "the engine to report its resources", waitLimit, func() bool { return r.lastResources != nil }); err != nil {
		return Resources{}, err
	}
	return *r.lastResources, nil
}
