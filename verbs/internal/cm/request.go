//go:build linux && (amd64 || arm64)

package cm

import "time"

// A request is a REQ or a SIDRREQ that has arrived.
type request struct {
	packet  Packet
	from    linkNumber
	service uint64
	data    []byte
	connect *REQ   // nil: the request is a SIDRREQ
	network bool   // the request has come over a network
	stop    func() // stops the timer of awaitListener, or takes the request out of a requestQueue
}

// port returns the port that a request is for.
func (r *request) port() portKey {
	return portKey{r.packet.To.Namespace, portSpace(r.service >> 16), uint16(r.service)}
}

// sender returns the link that has sent a request.
func (r *request) sender() remote { return remote{r.packet.From, r.from} }

// patience is how long a request waits for a service that is bound but does not listen yet.
// Some programs send their peer the port before they listen; with hardware, the peer's request
// takes longer than that.
const patience = 200 * time.Millisecond

// Some programs listen, end the listener, and listen on the same port again, and their peer does not know
// when (perftest -R). So a request also waits if a listener of its port has ended within recentTime. It
// waits for afterEnding, which such programs can need on a loaded machine.
const (
	afterEnding = 500 * time.Millisecond
	recentTime  = time.Second
	maxRecent   = 1024 // number of ports whose ended listener is remembered
	maxWaiting  = 1024 // a request from elsewhere may wait only if fewer requests wait already
)

// receiveRequest gives a request to its listener, lets it wait for a listener, or rejects it. A request that
// has come before gets the answer again.
func (m *Manager) receiveRequest(r *request) {
	if i := m.peers[r.sender()]; i != nil {
		i.link.gotRequestAgain()
		return
	}
	if m.waiting[r.sender()] != nil {
		m.counts.Duplicates++
		return
	}
	listener, isBound := m.findListener(r)
	switch {
	case listener != nil && r.packet.From.elsewhere():
		listener.offerInTurn(r)
	case listener != nil:
		listener.offer(r)
	case len(m.waiting) >= maxWaiting && r.packet.From.elsewhere(): // no user is charged for it
		m.counts.Refused++
		m.rejectUnserved(r)
	case isBound:
		m.awaitListener(r, patience)
	case m.recent[r.port()] != nil:
		m.awaitListener(r, afterEnding)
	default:
		m.rejectUnserved(r)
	}
}

// awaitListener keeps a request for the time d, until a listener takes it (offerWaiting). After that time it
// rejects the request; but if an id has been bound to the service meanwhile, the request waits for patience
// once more.
func (m *Manager) awaitListener(r *request, d time.Duration) {
	m.waiting[r.sender()] = r
	if m.awaited[r.port()] == nil {
		m.awaited[r.port()] = make(map[*request]bool)
	}
	m.awaited[r.port()][r] = true
	r.stop = m.later(d, func() {
		if m.waiting[r.sender()] != r {
			return
		}
		if _, isBound := m.findListener(r); isBound && d == afterEnding {
			m.awaitListener(r, patience)
			return
		}
		m.endWait(r)
		m.rejectUnserved(r)
	})
}

// endWait ends the wait of a request, for a listener to come or for its turn.
func (m *Manager) endWait(r *request) {
	r.stop()
	delete(m.waiting, r.sender())
	samePort := m.awaited[r.port()]
	delete(samePort, r)
	if len(samePort) == 0 {
		delete(m.awaited, r.port())
	}
}

// offerWaiting offers the requests that wait for a port to its listeners.
func (m *Manager) offerWaiting(port portKey) {
	for r := range m.awaited[port] {
		if listener, _ := m.findListener(r); listener != nil {
			m.endWait(r)
			if r.packet.From.elsewhere() {
				listener.offerInTurn(r)
			} else {
				listener.offer(r)
			}
		}
	}
}

// An ending is the recent end of a listener.
type ending struct{ stop func() }

// noteListenerEnded remembers for recentTime that a listener of a port has ended.
func (m *Manager) noteListenerEnded(key portKey) {
	if old := m.recent[key]; old != nil {
		old.stop()
	} else if len(m.recent) >= maxRecent {
		return
	}
	e := new(ending)
	m.recent[key] = e
	e.stop = m.later(recentTime, func() {
		if m.recent[key] == e { // no other listener has ended meanwhile
			delete(m.recent, key)
		}
	})
}

// rejectUnserved answers a request for which there is no listener.
func (m *Manager) rejectUnserved(r *request) {
	if r.connect == nil {
		m.answer(r, &SIDRREP{To: r.from, Service: r.service, Status: sidrUnsupported})
	} else {
		m.answer(r, &REJ{To: r.from, Reason: rejService})
	}
}
