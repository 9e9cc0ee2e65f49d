package torture

import (
	"context"
	"os"
	"syscall"
	"time"
)

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
