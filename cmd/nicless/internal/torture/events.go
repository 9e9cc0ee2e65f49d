//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"os"
	"syscall"
	"time"
)

// during handles events for the time d.
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

// until handles events until f returns true. If that takes longer than d, it is a fault.
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
		if p.ending && p.spec.Role != roleClient {
			return nil
		}
		return r.fault("%s: %s", p.name, e.report.Text)
	case isResources:
		r.lastResources = e.report.Resources
		return nil
	case isStall:
		s := *e.report.Stall
		s.Client = p.name
		s.Stop = p.stops.during(time.Unix(0, s.Begin), time.Unix(0, s.End))
		if s.Length() > stallBound {
			r.result.Stalls.add(s)
		}
		return nil
	case isRefused:
		if r.serving && time.Unix(0, e.report.Begin).After(r.servingSince) {
			return r.fault("the engine did not serve a correct client that connected: %s", e.report.Text)
		}
		return nil
	case isOrphans:
		r.orphans = e.report.Orphans
		for _, c := range r.hostile {
			if c != nil && c.spec.Attack == Impostor {
				c.tell(Order{Do: doOrphans, Orphans: r.orphans})
			}
		}
		return nil
	}
	if p == r.engine && e.report.Is == isReady {
		r.serving, r.servingSince = true, time.Unix(0, e.report.At)
		r.result.Start = max(r.result.Start, r.servingSince.Sub(r.startAt))
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
	if !p.ending {
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

// tail returns the beginning of a process's standard error. If the process panicked, that is
// the first goroutine.
func tail(s string) string {
	const most = 6000
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

// keep adds the counts of an ended process to the result, once.
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
