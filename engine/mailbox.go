//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// Do runs f between two steps and returns when f has returned. While the engine sleeps or
// is not run, f runs on the caller's goroutine; during that time the caller must not let
// another goroutine step the engine. Do is safe for concurrent use, but f must not call it.
func (e *device) Do(f func()) { e.doWith(makesWork, f) }

// doWith is Do for a function of which the caller knows what it brings.
func (e *device) doWith(b bringing, f func()) {
	e.mail.do(b, func() {
		e.pause()
		defer e.unpause()
		f()
	})
}

// A mailbox carries functions to the engine's thread. While that thread sleeps, a function
// runs at once on its caller's goroutine and does not wait until the thread wakes.
type mailbox struct {
	waiting atomic.Bool // queue is not empty; a step reads only this

	mu         sync.Mutex
	queue      []*mail
	running    bool   // a thread of the engine serves the queue
	callersRun bool   // that thread sleeps and touches nothing of the engine, so callers run their functions themselves
	naps       bool   // it sleeps so shortly that most functions need not wake it
	wake       func() // wakes that thread
}

type mail struct {
	f    func()
	ran  atomic.Bool // f has returned; read by a caller that spins
	done chan struct{}
}

func (m *mailbox) do(b bringing, f func()) {
	m.mu.Lock()
	if !m.running || m.callersRun {
		defer m.mu.Unlock()
		f()
		if m.callersRun && b.wakes(m.naps) {
			m.wake()
		}
		return
	}
	l := &mail{f: f, done: make(chan struct{})}
	m.queue = append(m.queue, l)
	m.waiting.Store(true)
	if m.wake != nil {
		m.wake()
	}
	m.mu.Unlock()
	l.wait()
}

// mailSpin is how long a caller spins before it blocks. A spinning engine has usually
// served the request before the kernel could put the caller's thread to sleep.
const mailSpin = 10 * time.Microsecond

func (l *mail) wait() {
	if !cpu.Uniprocessor() {
		for end := clock.Now() + clock.Cycles(mailSpin); clock.Now() < end; cpu.Relax(1) {
			if l.ran.Load() {
				return
			}
		}
	}
	<-l.done
}

// run runs f and tells f's caller that it has returned.
func (l *mail) run() {
	l.f()
	l.ran.Store(true)
	close(l.done)
}

// allowCallers lets callers run their functions themselves, because the engine's thread is
// about to sleep. If functions are queued already, it returns false, and callers still
// queue their functions. stopCallers ends the permission. naps says that the thread does not
// sleep for long and then looks at everything.
func (m *mailbox) allowCallers(naps bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.callersRun, m.naps = len(m.queue) == 0, naps
	return m.callersRun
}

func (m *mailbox) stopCallers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.callersRun = false
}

// mailsPerStep is the largest number of functions that one step runs.
const mailsPerStep = 8

// serve runs the first mailsPerStep functions in the queue, on the engine's thread.
func (m *mailbox) serve() {
	m.mu.Lock()
	n := min(len(m.queue), mailsPerStep)
	now := m.queue[:n:n]
	if m.queue = m.queue[n:]; len(m.queue) == 0 {
		m.queue = nil
		m.waiting.Store(false)
	}
	m.mu.Unlock()
	for _, l := range now {
		l.run()
	}
}

// open records that a thread serves the queue from now on, and that wake wakes this thread.
// shut ends this.
func (m *mailbox) open(wake func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.wake = true, wake
}

// shut runs the functions left in the queue. After that, callers run their functions
// themselves.
func (m *mailbox) shut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.queue {
		l.run()
	}
	m.queue, m.running, m.wake = nil, false, nil
	m.waiting.Store(false)
}
