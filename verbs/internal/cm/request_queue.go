//go:build linux && (amd64 || arm64)

package cm

import (
	"slices"
	"time"
)

// A requestQueue gives the program of a listener the requests from elsewhere one at a time: the next
// request when the program has used the id of the last one, or some time after the program has read the
// event of the last one.
//
// Programs that serve several connections often have one thread that reads events. It hands the id of a new
// connection to another thread, by one variable (rping -P). If two requests arrive at once, two threads get
// the second id: rdma_create_qp fails with EINVAL for one of them, and the program ends. Over a network it is
// rare that two clients connect within some microseconds, but in a flood of requests it happens.
type requestQueue struct {
	current   *id        // the id of the last request that was given; nil: the program has used it
	waiting   []*request // oldest first
	late      int        // how many times in a row the program has not used an id in time
	stopTimer func()     // stops the timer of current; nil: the program has not read the event of current
}

// useTime is how long a program has to use an id. On a busy host a thread may wait for a processor for most
// of this time. A program that often does not use an id in time, because it reads several requests before
// it uses the first id, has shortUseTime: from the time on when it was late mostLate times in a row.
const (
	useTime      = 200 * time.Millisecond
	shortUseTime = 5 * time.Millisecond
	mostLate     = 3
)

// offerInTurn offers a request from elsewhere to a listener, at once or after the requests before it.
func (i *id) offerInTurn(r *request) {
	q := &i.requests
	if q.current == nil {
		i.offer(r)
		return
	}
	from := r.packet.From.PortAddress
	same := 0 // number of requests from the same address, with the current one
	if q.current.remote == from {
		same++
	}
	for _, other := range q.waiting {
		if other.packet.From.PortAddress == from {
			same++
		}
	}
	// An address may fill the backlog. Other addresses still get in.
	if same > 0 && len(q.waiting) >= i.backlog {
		i.rejectFull(r)
		return
	}
	if len(q.waiting) >= maxQueued || same >= maxQueuedFrom {
		i.m.counts.OverBudget++
		return
	}
	q.waiting = append(q.waiting, r)
	i.m.waiting[r.sender()] = r
	r.stop = func() {
		q.waiting = slices.DeleteFunc(q.waiting, func(other *request) bool { return other == r })
	}
}

// readRequest notes that the program has read the event of a request. newID is the id of the request.
func (i *id) readRequest(newID *id) {
	q := &i.requests
	if q.current != newID || q.stopTimer != nil {
		return
	}
	d := useTime
	if q.late >= mostLate {
		d = shortUseTime
	}
	q.stopTimer = i.m.later(d, func() {
		if q.current == newID {
			q.late++
			i.nextRequest()
		}
	})
}

// noteUsed notes that the program has used an id, or that the id has ended.
func (i *id) noteUsed() {
	l := i.listener
	i.listener = nil
	if l == nil || l.requests.current != i {
		return
	}
	l.requests.late = 0
	l.nextRequest()
}

// nextRequest offers the next request of its queue to a listener.
func (i *id) nextRequest() {
	q := &i.requests
	if q.stopTimer != nil {
		q.stopTimer()
	}
	q.current, q.stopTimer = nil, nil
	for q.current == nil && len(q.waiting) > 0 && i.m.ids[i.handle] == i {
		r := q.waiting[0]
		i.m.endWait(r)
		i.offer(r)
	}
}

// endQueue is called when a listener ends. Each request of its queue goes to another listener, if there is
// one.
func (i *id) endQueue() {
	q := &i.requests
	if q.stopTimer != nil {
		q.stopTimer()
		q.stopTimer = nil
	}
	q.current = nil
	for len(q.waiting) > 0 {
		r := q.waiting[0]
		i.m.endWait(r)
		i.m.receiveRequest(r)
	}
}
