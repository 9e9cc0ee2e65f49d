package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// Do runs f between two steps and returns when it has run. While nobody runs
// the engine, or it sleeps, f runs on the caller's goroutine, which must not be
// stepping it elsewhere then. Safe for concurrent use, but not from within f.
func (e *Engine) Do(f func()) {
	e.mail.do(func() {
		e.pause()
		defer e.unpause()
		f()
	})
}

// A mailbox carries functions to the engine's thread. While that sleeps, they
// need not wait for it to wake: the engine is theirs then.
type mailbox struct {
	waiting atomic.Bool // queue is not empty; the only thing a step looks at

	mu      sync.Mutex
	queue   []*mail
	running bool   // somebody serves the queue
	resting bool   // who serves it sleeps, and touches nothing of the engine
	wake    func() // ends a sleep
}

type mail struct {
	f    func()
	ran  atomic.Bool // for who has not long been waiting
	done chan struct{}
}

func (m *mailbox) do(f func()) {
	m.mu.Lock()
	if !m.running || m.resting {
		defer m.mu.Unlock()
		f()
		if m.resting {
			m.wake() // there may be work now, or others to wake for
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

// mailSpin is how long a request waits awake: an engine that spins has served
// it before a thread could be put to sleep.
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

// serve runs it.
func (l *mail) serve() {
	l.f()
	l.ran.Store(true)
	close(l.done)
}

// rest lets requests run although the engine's thread does not, unless there are
// some already. rise ends that.
func (m *mailbox) rest() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = len(m.queue) == 0
	return m.resting
}

func (m *mailbox) rise() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = false
}

// mailsPerStep bounds how long a step is held up by requests.
const mailsPerStep = 8

// serve runs what is in the queue, or the first of it, on the thread of the
// engine.
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
		l.serve()
	}
}

// open and shut bracket the time in which somebody serves the queue.
func (m *mailbox) open(wake func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.wake = true, wake
}

// shut runs what is left, before anybody's own goroutine may.
func (m *mailbox) shut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.queue {
		l.serve()
	}
	m.queue, m.running, m.wake = nil, false, nil
	m.waiting.Store(false)
}
