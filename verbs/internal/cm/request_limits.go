//go:build linux && (amd64 || arm64)

package cm

import "github.com/nicless/nicless/internal/budget"

// Requests from elsewhere cost this host work, and strangers can send any number of them. So each source
// address has a budget, and each listener gets the requests one after the other (request_queue.go).
//
// A request over the budget is dropped and counted, not rejected. Its sender sends it again. So a good
// request among very many bad ones is served later.

// Limits of requests from elsewhere.
var (
	// requestsEach is enough for a thousand ranks on one host, which connect at once and then rarely.
	// requestsAll is enough for a rack of such hosts in the first seconds after it starts.
	requestsEach = budget.Rate{PerSecond: 500, Burst: 1000}
	requestsAll  = budget.Rate{PerSecond: 4000, Burst: 4000}
)

const (
	// maxHalfOpen is how many connections of one address may be half open: the program has not answered the
	// request, or the other end has not answered the REP. A half-open connection holds an id, and often a
	// thread and a queue pair of the program, for up to a minute if its sender does not exist. A real
	// connection is complete within milliseconds.
	maxHalfOpen = 256

	maxQueued     = 256 // requests from elsewhere that wait for one listener
	maxQueuedFrom = 64  // requests from one address that wait for one listener
)

// admit counts a new request from an address, and reports whether it is within the budgets.
func (m *Manager) admit(from PortAddress) bool {
	return m.halfOpen[from] < maxHalfOpen && m.budgets.Take(from.GID, m.Now())
}

// countHalfOpen counts the link as half open until uncountHalfOpen is called.
func (l *link) countHalfOpen() {
	if l.other.elsewhere() {
		l.halfOpen = true
		l.id.m.halfOpen[l.other.PortAddress]++
	}
}

func (l *link) uncountHalfOpen() {
	if !l.halfOpen {
		return
	}
	l.halfOpen = false
	open, from := l.id.m.halfOpen, l.other.PortAddress
	open[from]--
	if open[from] <= 0 {
		delete(open, from)
	}
}
