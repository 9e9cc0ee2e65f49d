//go:build linux && (amd64 || arm64)

package cm

import (
	"slices"
	"time"

	"github.com/nicless/nicless/internal/budget"
)

// Requests from elsewhere cost this host work, and strangers can send any number. So each source
// address has a budget, and each listener gets them one after the other.
//
// A request over the budget is dropped and counted, not rejected: its sender sends it again, and
// a good one among very many bad ones has its turn then.

// Limits of requests from elsewhere.
var (
	// A thousand ranks on one host connect at once and then rarely. All sources together are a
	// rack of such hosts in the first seconds after it starts.
	requestsEach = budget.Rate{PerSecond: 500, Burst: 1000}
	requestsAll  = budget.Rate{PerSecond: 4000, Burst: 4000}
)

const (
	// maxHalfOpen is how many connections of one address may be without an answer to the REP, or
	// without an answer of the program. Each holds an id, and often a thread and a queue pair of the program,
	// for up to a minute if its sender does not exist. A real one is complete within milliseconds.
	maxHalfOpen = 256

	maxQueued     = 256 // requests that wait for one listener
	maxQueuedFrom = 64  // of these, from one address
)

// admit counts a new request from an address, and reports whether it is within the budgets.
func (m *Manager) admit(from PortAddress) bool {
	return m.halfOpen[from] < maxHalfOpen && m.requests.Take(from.GID, m.Now())
}

// begins counts the link as half open, until ends is called.
func (l *link) begins() {
	if l.other.elsewhere() {
		l.half = true
		l.id.m.halfOpen[l.other.PortAddress]++
	}
}

func (l *link) ends() {
	if !l.half {
		return
	}
	l.half = false
	open, from := l.id.m.halfOpen, l.other.PortAddress
	open[from]--
	if open[from] <= 0 {
		delete(open, from)
	}
}

// A pace gives a listener's program requests from elsewhere one at a time: the next one when the
// program has used the id of the last one, or some time after it has read its event.
//
// Programs that serve several connections often hand the id of a new one from the thread that
// reads events to another thread, by one variable (rping -P). With two requests at once, two
// threads get the second id: rdma_create_qp fails with EINVAL for one of them, and the program
// ends. Over a network two clients hardly ask within some microseconds, a flood does.
type pace struct {
	made  *id        // whose event is not read, or whose id is not used
	queue []*request // from elsewhere, oldest first
	late  int        // times in a row that the program has not used an id in time
	stop  func()     // ends that time; nil: the event is not read
}

// How long a program has to use an id. On a busy host a thread may wait for a processor for most of
// paceTime. A program that takes several requests before it uses the first one is soon known by
// that, and gets the others at shortPaceTime.
const (
	paceTime      = 200 * time.Millisecond
	shortPaceTime = 5 * time.Millisecond
	mostLate      = 3
)

// offerFar gives a listener a request from elsewhere, when it is its turn.
func (i *id) offerFar(r *request) {
	m, p := i.m, &i.pace
	if p.made == nil {
		i.offer(r)
		return
	}
	same, from := 0, r.packet.From.PortAddress
	if p.made.remote == from {
		same++
	}
	for _, q := range p.queue {
		if q.packet.From.PortAddress == from {
			same++
		}
	}
	if same > 0 && len(p.queue) >= i.backlog { // as many as the program wants to wait; others may still come
		i.rejectFull(r)
		return
	}
	if len(p.queue) >= maxQueued || same >= maxQueuedFrom {
		m.counts.OverBudget++
		return
	}
	p.queue = append(p.queue, r)
	m.waiting[r.sender()] = r
	r.stop = func() { p.queue = slices.DeleteFunc(p.queue, func(q *request) bool { return q == r }) }
}

// gave notes that the program gets an event with an id for a request from elsewhere.
func (p *pace) gave(made *id) { p.made = made }

// readRequest notes that the program has read the event.
func (i *id) readRequest(made *id) {
	p := &i.pace
	if p.made != made || p.stop != nil {
		return
	}
	d := paceTime
	if p.late >= mostLate {
		d = shortPaceTime
	}
	p.stop = i.m.later(d, func() {
		if p.made == made {
			p.late++
			i.nextRequest()
		}
	})
}

// used notes that the program has used an id, or that the id has ended.
func (i *id) used() {
	l := i.listener
	i.listener = nil
	if l == nil || l.pace.made != i {
		return
	}
	l.pace.late = 0
	l.nextRequest()
}

// nextRequest gives the listener the next request.
func (i *id) nextRequest() {
	p := &i.pace
	if p.stop != nil {
		p.stop()
	}
	p.made, p.stop = nil, nil
	for p.made == nil && len(p.queue) > 0 && i.m.ids[i.handle] == i {
		r := p.queue[0]
		i.m.waitsNoMore(r)
		i.offer(r)
	}
}

// endPace ends a listener's pace: its requests look for another listener.
func (i *id) endPace() {
	p := &i.pace
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.made = nil
	for len(p.queue) > 0 {
		r := p.queue[0]
		i.m.waitsNoMore(r)
		i.m.receiveRequest(r)
	}
}
