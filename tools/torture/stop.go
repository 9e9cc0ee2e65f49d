//go:build linux && (amd64 || arm64)

package torture

import (
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/verdict"
)

// stops has the intervals for which the supervisor has stopped a process with SIGSTOP. A stopped
// process keeps all its resources and does not answer.
type stops struct {
	mu   sync.Mutex
	list []interval
	dead bool // the process was killed
}

// An interval is a time for which a process was stopped. While its end is zero, the process is
// still stopped.
type interval struct{ begin, end time.Duration }

// pause stops a process for the time d, unless it is stopped already.
func (r *run) pause(p *process, d time.Duration) {
	s := &p.stops
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.list); s.dead || n > 0 && s.list[n-1].end == 0 {
		return
	}
	now := verdict.Now()
	s.list = append(s.list, interval{begin: now})
	if p.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		s.list = s.list[:len(s.list)-1] // the process has ended
		return
	}
	r.result.Stopped++
	r.resumed = max(r.resumed, now+d)
	r.resuming.Add(1)
	time.AfterFunc(d, func() {
		defer r.resuming.Done()
		r.resume(p)
	})
}

func (r *run) resume(p *process) {
	s := &p.stops
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return
	}
	if p.spec.Role != roleEngine { // write how long it was stopped to the board before it continues
		slot := p.spec.slot()
		r.board.setStopped(slot, r.board.stopped(slot)+verdict.Now()-s.list[len(s.list)-1].begin)
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	s.list[len(s.list)-1].end = verdict.Now()
}

// during returns how long the process was stopped between two times.
func (s *stops) during(begin, end time.Duration) (d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.list {
		from, to := max(i.begin, begin), end
		if i.end != 0 {
			to = min(i.end, end)
		}
		d += max(0, to-from)
	}
	return d
}
