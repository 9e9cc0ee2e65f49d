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

// during handles events for a time.
func (r *run) during(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case e := <-r.events:
			if err := r.handle(e); err != nil {
				return err
			}
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// until handles events until something is true.
func (r *run) until(ctx context.Context, what string, d time.Duration, f func() bool) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for !f() {
		select {
		case e := <-r.events:
			if err := r.handle(e); err != nil {
				return err
			}
		case <-t.C:
			return r.fault("waited %v for %s", d, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// handle handles a report or the end of a process.
func (r *run) handle(e event) error {
	p := e.p
	if e.exit != nil {
		return r.ended(p, e.exit)
	}
	switch e.report.Is {
	case isCount:
		if e.report.Count != nil {
			p.count = *e.report.Count
		}
		return nil
	case isFault:
		if p.ends && p.spec.Role != roleClient {
			return nil
		}
		return r.fault("%s: %s", p.name, e.report.Text)
	case isHolds:
		r.holds = e.report.Holds
		return nil
	case isStall:
		s := *e.report.Stall
		s.Who = p.name
		s.Stop = p.stops.during(time.Unix(0, s.Begin), time.Unix(0, s.End))
		if s.Length() > stallBound {
			r.result.Stalls.add(s)
		}
		return nil
	case isRefused:
		if r.up && time.Unix(0, e.report.Begin).After(r.upAt) {
			return r.fault("a correct client that came while the engine served was not served: %s", e.report.Text)
		}
		return nil
	case isOrphans:
		r.orphans = e.report.Orphans
		for _, c := range r.chaos {
			if c != nil && c.spec.Chaos == Impostor {
				c.tell(Order{Do: doOrphans, Orphans: r.orphans})
			}
		}
		return nil
	}
	if p == r.engine && e.report.Is == isReady {
		r.up, r.upAt = true, time.Unix(0, e.report.At)
		r.result.Start = max(r.result.Start, r.upAt.Sub(r.startAt))
	}
	if p.spec.Role == roleClient {
		return r.client(p, e.report)
	}
	return nil
}

// ended handles the end of a process.
func (r *run) ended(p *process, s *os.ProcessState) error {
	delete(r.all, p)
	r.keep(p)
	if !p.ends {
		return r.fault("%s ended by itself: %v\n%s", p.name, s, tail(p.stderr.String()))
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && !(w.Signaled() && w.Signal() == syscall.SIGKILL) && !s.Success() {
		return r.fault("%s: %v\n%s", p.name, s, tail(p.stderr.String()))
	}
	if p == r.engine && !r.closing {
		if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			r.result.Ending = max(r.result.Ending, time.Since(r.endedAt))
		}
		return r.startEngine()
	}
	return nil
}

// tail returns the beginning of what a process said last: of a panic, the first
// goroutine.
func tail(s string) string {
	const most = 6000
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

// keep adds what a process has counted to the result, once.
func (r *run) keep(p *process) {
	if !p.kept {
		p.kept = true
		r.result.past.add(&p.count)
	}
}

// sum brings the result up to date.
func (r *run) sum() {
	r.result.Count = Count{}
	r.result.Count.add(&r.result.past)
	for p := range r.all {
		r.result.Count.add(&p.count)
	}
}

// finish stops everybody in order and looks at what is left.
func (r *run) finish(ctx context.Context) error {
	if err := r.nextEngine(ctx); err != nil {
		return err
	}
	if err := r.until(ctx, "all clients to be at work", patience, func() bool { return r.each(inTraffic) }); err != nil {
		return err
	}
	if err := r.during(ctx, max(mostPause, time.Until(r.resumed))); err != nil {
		return err
	}
	r.visitor.ends = true
	r.visitor.tell(Order{Do: doClose})
	for _, do := range []struct {
		order, what string
		then        phase
	}{{doStop, "all clients to finish what they began", quiet}, {doClose, "all clients to close", closed}} {
		for i := range r.pairs {
			for end := range 2 {
				e := &r.pairs[i].ends[end]
				e.p.ends = do.order == doClose
				e.p.tell(Order{Do: do.order, Ready: e.seq})
			}
		}
		if err := r.until(ctx, do.what, patience, func() bool { return r.each(do.then) }); err != nil {
			return err
		}
	}
	for _, p := range r.chaos {
		p.kill()
		r.result.Killed.Chaos++
	}
	if err := r.until(ctx, "all clients to end", patience, func() bool { return len(r.all) == 1 }); err != nil {
		return err
	}
	return r.stop(ctx)
}

// stop looks at what the engine holds without clients, and stops it.
func (r *run) stop(ctx context.Context) error {
	for end := time.Now().Add(settleTime); ; {
		h, err := r.held(ctx)
		if err != nil {
			return err
		}
		r.result.Baseline, r.result.Holds = *r.baseline, h
		left := h.leaked(*r.baseline)
		if left == "" {
			break
		}
		if time.Now().After(end) {
			r.result.Leaked = left
			return r.fault("%v after all clients are gone, the engine has %s", settleTime, left)
		}
		if err := r.during(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	r.closing, r.engine.ends = true, true
	_ = r.engine.cmd.Process.Signal(syscall.SIGTERM)
	if err := r.until(ctx, "the engine to stop", patience, func() bool { return len(r.all) == 0 }); err != nil {
		return err
	}
	if _, err := os.Lstat(r.socket()); err == nil {
		return r.fault("the engine left its socket behind")
	}
	return nil
}

// end kills who still lives.
func (r *run) end() {
	for p := range r.all {
		p.kill()
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for len(r.all) > 0 {
		select {
		case e := <-r.events:
			switch {
			case e.exit != nil:
				delete(r.all, e.p)
				r.keep(e.p)
				if e.p == r.engine && e.p.stderr.Len() > 0 { // why clients found it gone
					_ = r.fault("%s: %v\n%s", e.p.name, e.exit, tail(e.p.stderr.String()))
				}
			case e.report.Count != nil:
				e.p.count = *e.report.Count
			}
		case <-t.C:
			return
		}
	}
	r.sum()
}
