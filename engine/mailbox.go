package engine

import (
	"sync"
	"sync/atomic"
)

// Do runs f between two steps and returns when it has run. While nobody runs
// the engine, f runs on the caller's goroutine, which must not be stepping it
// elsewhere then. Safe for concurrent use, but not from within f.
func (e *Engine) Do(f func()) {
	e.mail.do(func() {
		e.pause()
		defer e.goOn()
		f()
	})
}

// A mailbox carries functions to the engine's thread.
type mailbox struct {
	waiting atomic.Bool // queue is not empty; the only thing a step looks at

	mu      sync.Mutex
	queue   []*letter
	running bool   // somebody serves the queue
	wake    func() // ends a sleep
}

type letter struct {
	f    func()
	done chan struct{}
}

func (m *mailbox) do(f func()) {
	m.mu.Lock()
	if !m.running {
		defer m.mu.Unlock()
		f()
		return
	}
	l := &letter{f: f, done: make(chan struct{})}
	m.queue = append(m.queue, l)
	m.waiting.Store(true)
	if m.wake != nil {
		m.wake()
	}
	m.mu.Unlock()
	<-l.done
}

// lettersPerStep bounds how long a step is held up by requests.
const lettersPerStep = 8

// serve runs what is in the queue, or the first of it, on the thread of the
// engine.
func (m *mailbox) serve() {
	m.mu.Lock()
	n := min(len(m.queue), lettersPerStep)
	now := m.queue[:n:n]
	if m.queue = m.queue[n:]; len(m.queue) == 0 {
		m.queue = nil
		m.waiting.Store(false)
	}
	m.mu.Unlock()
	for _, l := range now {
		l.f()
		close(l.done)
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
		l.f()
		close(l.done)
	}
	m.queue, m.running, m.wake = nil, false, nil
	m.waiting.Store(false)
}
