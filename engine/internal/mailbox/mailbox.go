//go:build linux && (amd64 || arm64)

package mailbox

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// A Mailbox carries functions to the engine's thread. While that thread sleeps, a function
// runs at once on its caller's goroutine and does not wait until the thread wakes.
type Mailbox struct {
	Waiting atomic.Bool // queue is not empty; a step reads only this

	Mu         sync.Mutex
	Queue      []*Mail
	Running    bool   // the engine's thread serves the queue
	CallersRun bool   // the engine's thread sleeps and touches no state, so callers run their functions
	naps       bool   // the engine's thread sleeps for so short a time that most functions need not wake it
	Wake       func() // wakes the engine's thread

	loan // for callers that run steps; see lend.go

	Stored int // bytes that functions of this step have stored, if they were many; not under Mu
}

// A Mail is a function in the queue.
type Mail struct {
	F    func()
	ran  atomic.Bool   // F has returned; a caller that spins reads this
	Done chan struct{} // closed when F has returned; a caller that blocks waits for this
}

// Do runs f on the engine's thread, and returns when f has returned. While that thread sleeps, or if there
// is none, Do runs f on the caller's goroutine. effect says whether f is a reason to wake the thread.
func (m *Mailbox) Do(effect Effect, f func()) {
	m.Mu.Lock()
	if !m.Running || m.CallersRun {
		defer m.Mu.Unlock()
		f()
		if m.CallersRun && effect.wakes(m.naps) {
			m.Wake()
		}
		return
	}
	l := &Mail{F: f, Done: make(chan struct{})}
	m.Queue = append(m.Queue, l)
	m.Waiting.Store(true)
	if m.Wake != nil {
		m.Wake()
	}
	m.Mu.Unlock()
	l.Wait()
}

// mailSpin is how long a caller spins before it blocks. A spinning engine has usually
// served the request before the kernel could put the caller's thread to sleep.
const mailSpin = 10 * time.Microsecond

// Wait returns when the engine's thread has run the function.
func (l *Mail) Wait() {
	if !cpu.Uniprocessor() {
		for end := clock.Now() + clock.Cycles(mailSpin); clock.Now() < end; cpu.Relax(1) {
			if l.ran.Load() {
				return
			}
		}
	}
	<-l.Done
}

// run runs f and reports to f's caller that it has returned.
func (l *Mail) run() {
	l.F()
	l.ran.Store(true)
	close(l.Done)
}

// AllowCallers lets callers run their functions themselves, because the engine's thread is about to sleep. It
// reports whether callers may do so: not if functions are in the queue already. StopCallers ends the
// permission. naps says that the thread sleeps only for a short time and then looks for all work.
func (m *Mailbox) AllowCallers(naps bool) bool {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.CallersRun, m.naps = len(m.Queue) == 0, naps
	return m.CallersRun
}

// StopCallers makes callers queue their functions again, because the engine's thread is awake.
func (m *Mailbox) StopCallers() {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.CallersRun, m.lent = false, false
}

// mailsPerStep is the largest number of functions that one step runs. When they have stored storedPerStep
// bytes, it runs no more: to store so much takes about as long as the usual functions of a step, and if the
// kernel has to find the pages, a tenth of a millisecond.
const (
	mailsPerStep  = 8
	storedPerStep = 256 << 10
)

// Serve runs the first functions in the queue, on the engine's thread, as many as one step runs.
func (m *Mailbox) Serve() {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Stored = 0
	for n := min(len(m.Queue), mailsPerStep); n > 0 && m.Stored < storedPerStep; n-- {
		l := m.Queue[0]
		m.Queue = m.Queue[1:]
		if len(m.Queue) == 0 {
			m.Queue = nil
			m.Waiting.Store(false)
		}
		m.runUnlocked(l)
	}
}

// runUnlocked runs a function while others may enter the queue.
func (m *Mailbox) runUnlocked(l *Mail) {
	m.Mu.Unlock()
	defer m.Mu.Lock() // also after a panic
	l.run()
}

// Open records that a thread serves the queue from now on, and that wake wakes this thread.
// Shut ends this.
func (m *Mailbox) Open(wake func()) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Running, m.Wake = true, wake
}

// Shut runs the functions left in the queue. After that, callers run their functions
// themselves.
func (m *Mailbox) Shut() {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	for _, l := range m.Queue {
		l.run()
	}
	m.Queue, m.Running, m.Wake = nil, false, nil
	m.Waiting.Store(false)
}
