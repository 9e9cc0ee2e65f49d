//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/verdict"
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

// mostTries is how often a step of the supervisor may take its limit again, if the machine was too busy to
// judge. So a run goes on beside load, and finds what is wrong in spite of it.
const mostTries = 5

// until handles events until f returns true. If that takes longer than d, it is a fault.
func (r *run) until(ctx context.Context, what string, d time.Duration, f func() bool) error {
	t := time.NewTimer(d)
	defer t.Stop()
	m := r.witness.Begin()
	defer r.witness.Rest()
	for tries := 1; !f(); {
		select {
		case e := <-r.events:
			if err := r.handle(e); err != nil {
				return err
			}
		case <-t.C:
			r.measureLoad()
			if e := r.between(m); e.Decide(verdict.NoAnswer) == verdict.Undecided && tries < mostTries {
				tries++
				t.Reset(d)
				continue
			}
			return r.late(verdict.NoAnswer, m, fmt.Sprintf("%s within %v", what, d), "that has not happened")
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
		f := e.report.Fault
		if p.ending && p.spec.Role != roleClient && !f.Kind.Corruption() {
			return nil
		}
		f.Who = p.name
		if !e.report.Last { // it could not be decided, and the process goes on
			r.note(f)
			return nil
		}
		return r.fault(f)
	case isResources:
		r.lastResources = e.report.Resources
		return nil
	case isStall:
		s := e.report.Stall
		s.Client = p.name
		s.Stopped = p.stops.during(s.Begin, s.Begin+s.Took)
		if s.Took-s.Stopped > stallBound {
			r.result.Stalls.add(s)
			if f := s.fault(); f != nil {
				r.note(f)
			}
		}
		return nil
	case isRefused:
		if r.serving && time.Duration(e.report.Begin) > r.servingSince {
			f := e.report.Fault
			f.Who = p.name
			return r.fault(f)
		}
		return nil
	case isHalfOpen:
		r.halfOpen = e.report.HalfOpen
		for _, c := range r.hostile {
			if c != nil && c.spec.Attack == Impostor {
				c.send(Order{Do: doHalfOpen, HalfOpen: r.halfOpen})
			}
		}
		return nil
	}
	if p == r.engine && e.report.Is == isReady {
		r.serving, r.servingSince = true, time.Duration(e.report.At)
		r.result.Start = max(r.result.Start, r.servingSince-r.startAt)
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
	if r.leaving && p.spec.Role != roleEngine {
		r.board.clearPID(p.spec.slot(), p.cmd.Process.Pid) // no process waits for it, or takes its place
	}
	if !p.ending {
		return r.broken(p.name, "it runs until it is told to end", "it has ended by itself: %v\n%s", s, tail(p.stderr.String()))
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && !(w.Signaled() && w.Signal() == syscall.SIGKILL) &&
		!s.Success() {
		return r.broken(p.name, "exit status 0", "%v\n%s", s, tail(p.stderr.String()))
	}
	if p == r.engine && !r.closing {
		if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			r.result.Ending = max(r.result.Ending, verdict.Now()-r.endedAt)
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
