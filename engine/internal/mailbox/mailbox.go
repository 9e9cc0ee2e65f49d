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
	Running    bool   // a thread of the engine serves the queue
	CallersRun bool   // that thread sleeps and touches no state, so callers run their functions
	naps       bool   // it sleeps so shortly that most functions need not wake it
	Wake       func() // wakes that thread
}

type Mail struct {
	F    func()
	ran  atomic.Bool // f has returned; read by a caller that spins
	Done chan struct{}
}

func (m *Mailbox) Do(b Bringing, f func()) {
	m.Mu.Lock()
	if !m.Running || m.CallersRun {
		defer m.Mu.Unlock()
		f()
		if m.CallersRun && b.wakes(m.naps) {
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

// AllowCallers lets callers run their functions themselves, because the engine's thread is
// about to sleep. If functions are queued already, it returns false, and callers still
// queue their functions. StopCallers ends the permission. naps says that the thread does not
// sleep for long and then looks at everything.
func (m *Mailbox) AllowCallers(naps bool) bool {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.CallersRun, m.naps = len(m.Queue) == 0, naps
	return m.CallersRun
}

func (m *Mailbox) StopCallers() {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.CallersRun = false
}

// mailsPerStep is the largest number of functions that one step runs.
const mailsPerStep = 8

// Serve runs the first mailsPerStep functions in the queue, on the engine's thread.
func (m *Mailbox) Serve() {
	m.Mu.Lock()
	n := min(len(m.Queue), mailsPerStep)
	now := m.Queue[:n:n]
	m.Queue = m.Queue[n:]
	if len(m.Queue) == 0 {
		m.Queue = nil
		m.Waiting.Store(false)
	}
	m.Mu.Unlock()
	for _, l := range now {
		l.run()
	}
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
