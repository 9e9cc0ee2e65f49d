//go:build linux && (amd64 || arm64)

package mailbox

import (
	"github.com/nicless/nicless/internal/cpu"
)

// While the engine's thread sleeps, goroutines of the process may run its steps, one at a time, as they run
// functions that they bring (Do): under Mu. See docs/design/0094-steps-on-the-posters-core.md.

// A loan is what the sleeping thread allows. Its fields are under Mu.
type loan struct {
	lent   bool   // callers may run steps
	until  uint64 // device clock at which the thread wakes by itself
	called bool   // the thread was woken since Lend
}

// Lend lets callers run steps until StopCallers, if they may run functions. The thread wakes by itself at the
// device clock until.
func (m *Mailbox) Lend(until uint64) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.loan = loan{lent: m.CallersRun, until: until}
}

// borrowTries is how often Borrow tries to take the lock, with a pause between two tries. A step of another
// caller takes some 50 ns, and Borrow waits for several of them at most: the thread, which is woken
// otherwise, needs microseconds.
const borrowTries = 16

// Borrow reports whether the caller may run steps now. If so, it holds Mu, and the caller calls Return. It
// does not wait for those that hold Mu for long.
func (m *Mailbox) Borrow() bool {
	if !m.Mu.TryLock() && !m.retry() {
		return false
	}
	if !m.lent {
		m.Mu.Unlock()
		return false
	}
	return true
}

// retry tries to take the lock again.
func (m *Mailbox) retry() bool {
	if cpu.Uniprocessor() {
		return false // the caller that holds the lock does not run while this one does
	}
	for range borrowTries {
		cpu.Relax(1)
		if m.Mu.TryLock() {
			return true
		}
	}
	return false
}

// Until returns the device clock at which the thread wakes by itself. For a caller that has borrowed.
func (m *Mailbox) Until() uint64 { return m.until }

// Return ends what Borrow has begun. If rest is true, the steps have left work to the thread, which is woken.
func (m *Mailbox) Return(rest bool) {
	if rest && !m.called && m.Wake != nil {
		m.called = true
		m.Wake()
	}
	m.Mu.Unlock()
}
