//go:build linux && (amd64 || arm64)

package torture

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/verdict"
)

// finish stops all clients in order, then checks the engine.
func (r *run) finish(ctx context.Context) error {
	if err := r.nextEngine(ctx); err != nil {
		return err
	}
	if err := r.until(ctx, "all clients to move data", waitLimit, func() bool { return r.allIn(inTraffic) }); err != nil {
		return err
	}
	if err := r.during(ctx, max(mostPause, r.resumed-verdict.Now())); err != nil {
		return err
	}
	r.leaving, r.visitor.ending = true, true
	r.visitor.send(Order{Do: doClose})
	for _, do := range []struct {
		order, what string
		then        phase
	}{{doStop, "all clients to finish their operations", quiet}, {doClose, "all clients to close", closed}} {
		for i := range r.pairs {
			for end := range 2 {
				e := &r.pairs[i].ends[end]
				e.p.ending = do.order == doClose
				e.p.send(Order{Do: do.order, Ready: e.seq})
			}
		}
		if err := r.until(ctx, do.what, waitLimit, func() bool { return r.allIn(do.then) }); err != nil {
			return err
		}
	}
	for _, p := range r.hostile {
		p.kill()
		r.result.Killed.Hostile++
	}
	if err := r.until(ctx, "all clients to end", waitLimit,
		func() bool { return len(r.all) == 1 }); err != nil {
		return err
	}
	return r.stop(ctx)
}

// stop checks the resources of the engine without clients, then stops it.
func (r *run) stop(ctx context.Context) error {
	settle := cmp.Or(r.cfg.freeWithin, freeTime)
	for m, tries := r.witness.Begin(), 1; ; {
		h, err := r.queryResources(ctx)
		if err != nil {
			return err
		}
		r.result.Baseline, r.result.Final = *r.baseline, h
		left := h.leaked(*r.baseline)
		if left == "" {
			break
		}
		if verdict.Now()-m.At > settle {
			f := verdict.Late(verdict.Leaked, r.witness.Between(m, []int{r.engine.cmd.Process.Pid}, nil),
				fmt.Sprintf("what it had without clients, within %v of the end of the last one", settle), "the engine still has %s", left)
			if f.Kind == verdict.Undecided && tries < mostTries {
				tries++
				m = r.witness.Begin()
				continue
			}
			if f.Kind == verdict.Leaked {
				r.result.Leaked = left
			}
			return r.fault(f)
		}
		if err := r.during(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	r.closing, r.engine.ending = true, true
	_ = r.engine.cmd.Process.Signal(syscall.SIGTERM)
	if err := r.until(ctx, "the engine to stop", waitLimit,
		func() bool { return len(r.all) == 0 }); err != nil {
		return err
	}
	if _, err := os.Lstat(r.socket()); err == nil {
		return r.broken("the supervisor", "no socket", "the engine's socket still exists after the engine has ended")
	}
	return nil
}

// end kills all processes that are left.
func (r *run) end() {
	for p := range r.all {
		p.kill()
	}
	t := time.NewTimer(waitLimit)
	defer t.Stop()
	for len(r.all) > 0 {
		select {
		case e := <-r.events:
			switch {
			case e.exit != nil:
				delete(r.all, e.p)
				r.keep(e.p)
				// its standard error may say why clients found it gone
				if e.p == r.engine && e.p.stderr.Len() > 0 {
					_ = r.broken(e.p.name, "nothing on standard error", "%v\n%s", e.exit, tail(e.p.stderr.String()))
				}
			case e.report.Fault != nil && e.report.Fault.Kind.Corruption():
				e.report.Fault.Who = e.p.name
				r.note(e.report.Fault) // the run ends for another reason, which does not excuse it
			case e.report.Count != nil:
				e.p.count = *e.report.Count
			}
		case <-t.C:
			return
		}
	}
	r.sum()
}
