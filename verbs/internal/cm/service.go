//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"time"
)

// A request is a REQ or a SIDRREQ that has arrived.
type request struct {
	packet  Packet
	from    linkNumber
	service uint64
	data    []byte
	connect *REQ   // nil: it is about datagrams
	network bool   // it has come over a network
	stop    func() // ends the time for which it waits
}

// patience is how long a request waits for a service that is bound but does not listen yet.
// Some programs send their peer the port before they listen; with hardware, the peer's request
// takes longer than that.
const patience = 200 * time.Millisecond

// Some programs listen, end the listener, and listen on the same port again, and their peer does
// not know when (perftest -R). So a request for a port whose listener has ended not longer ago
// than memory waits too. Programs on a loaded machine can need afterEnding for that.
const (
	afterEnding = 500 * time.Millisecond
	memory      = time.Second
	maxRecent   = 1024 // ports that are remembered
	maxWaiting  = 1024 // requests that may wait when one more comes from elsewhere
)

// receiveRequest gives a request to its listener, or answers that there is none.
func (m *Manager) receiveRequest(r *request) {
	if i := m.peers[r.sender()]; i != nil {
		i.link.again()
		return
	}
	if m.waiting[r.sender()] != nil {
		m.counts.Duplicates++
		return
	}
	listener, soon := m.listener(r)
	switch {
	case listener != nil && r.packet.From.elsewhere():
		listener.offerFar(r)
	case listener != nil:
		listener.offer(r)
	case len(m.waiting) >= maxWaiting && r.packet.From.elsewhere(): // no user is charged for it
		m.counts.Refused++
		m.unserved(r)
	case soon:
		m.wait(r, patience)
	case m.recent[r.port()] != nil:
		m.wait(r, afterEnding)
	default:
		m.unserved(r)
	}
}

// wait keeps a request for a time. If the service has been bound meanwhile, it is kept for the
// time of such requests once more.
func (m *Manager) wait(r *request, d time.Duration) {
	m.waiting[r.sender()] = r
	if m.awaited[r.port()] == nil {
		m.awaited[r.port()] = make(map[*request]bool)
	}
	m.awaited[r.port()][r] = true
	r.stop = m.later(d, func() {
		if m.waiting[r.sender()] != r {
			return
		}
		if _, soon := m.listener(r); soon && d == afterEnding {
			m.wait(r, patience)
			return
		}
		m.waitsNoMore(r)
		m.unserved(r)
	})
}

// waitsNoMore ends the wait of a request.
func (m *Manager) waitsNoMore(r *request) {
	r.stop()
	delete(m.waiting, r.sender())
	of := m.awaited[r.port()]
	delete(of, r)
	if len(of) == 0 {
		delete(m.awaited, r.port())
	}
}

// An ending is that of a listener.
type ending struct{ stop func() }

// remember notes that a listener of a port has ended.
func (m *Manager) remember(key portKey) {
	if old := m.recent[key]; old != nil {
		old.stop()
	} else if len(m.recent) >= maxRecent {
		return
	}
	e := new(ending)
	m.recent[key] = e
	e.stop = m.later(memory, func() {
		if m.recent[key] == e { // no other listener has ended meanwhile
			delete(m.recent, key)
		}
	})
}

// port returns the port that a request is for.
func (r *request) port() portKey {
	return portKey{r.packet.To.Namespace, portSpace(r.service >> 16), uint16(r.service)}
}

// sender returns the link that has sent a request.
func (r *request) sender() remote { return remote{r.packet.From, r.from} }

func (m *Manager) unserved(r *request) {
	if r.connect == nil {
		m.answer(r, &SIDRREP{To: r.from, Service: r.service, Status: sidrUnsupported})
	} else {
		m.answer(r, &REJ{To: r.from, Reason: rejService})
	}
}

// wake looks for listeners of the requests that wait for a port.
func (m *Manager) wake(port portKey) {
	for r := range m.awaited[port] {
		if listener, _ := m.listener(r); listener != nil {
			m.waitsNoMore(r)
			if r.packet.From.elsewhere() {
				listener.offerFar(r)
			} else {
				listener.offer(r)
			}
		}
	}
}

// listener returns the listener of a request. Without one, soon says whether an id has been
// bound to the service. One that is bound to the address itself comes before one that is bound
// to all addresses.
func (m *Manager) listener(r *request) (found *id, soon bool) {
	u := m.ports[r.port()]
	if u == nil {
		return nil, false
	}
	_, dst := parseIPHeader(r.data, r.service)
	places := []holders{u.gid[r.packet.To.GID], u.addr[netip.Addr{}]}
	if !dst.any() {
		places = append([]holders{u.addr[dst.addr]}, places...)
	}
	serves := func(s state) *id {
		for _, h := range places {
			i := h.first(
				func(c class) bool { return c.state == s },
				func(i *id) bool { return i.serves(r, &dst) })
			if i != nil {
				return i
			}
		}
		return nil
	}
	for _, s := range []state{listening, bound} {
		i := serves(s)
		for i != nil && i.channel.tokens.Gone() {
			m.closeChannel(i.channel)
			i = serves(s)
		}
		if i != nil && s == listening {
			return i, false
		}
		soon = i != nil
	}
	return nil, soon
}

// serves reports whether a request is for what an id is bound to.
func (i *id) serves(r *request, dst *sockaddr) bool {
	if i.src.service(i.port.space)&i.sidMask() != r.service&i.sidMask() ||
		i.datagram() != (r.connect == nil) || !i.reachable(r, dst) {
		return false
	}
	switch {
	case i.src.any() && !i.only:
		return true
	case i.src.family == afIB:
		return i.src.any() || i.local.GID == r.packet.To.GID
	case i.src.family != dst.family:
		return false
	}
	return i.src.any() || i.src.addr == dst.addr
}

// sidMask returns which bits of a service number have to be those of the id.
func (i *id) sidMask() uint64 {
	if i.src.family == afIB {
		return i.src.mask
	}
	return ^uint64(0)
}

// offer makes an id for a request and notifies the listener's program.
func (i *id) offer(r *request) {
	m := i.m
	if why, reason := i.misfit(r); reason != 0 {
		m.counts.Refused++
		i.explain("a request for a connection from %v is rejected: %s", netip.AddrFrom16(r.packet.From.GID).Unmap(), why)
		m.answer(r, &REJ{To: r.from, Reason: reason})
		return
	}
	if r.connect != nil && i.qpType != 0 && i.qpType != r.connect.QPType {
		i.explain("a request for a connection of queue pairs of type %d; id %d listens for type %d", r.connect.QPType, i.handle, i.qpType)
		m.answer(r, &REJ{To: r.from, Reason: rejConsumer})
		return
	}
	if i.backlog == 0 {
		i.rejectFull(r)
		return
	}
	made, err := m.newID(i.channel, i.program, i.space, i.qpType)
	if err != nil {
		i.explain("a request for a connection is rejected: %v", err)
		m.refuse(r)
		return
	}
	i.backlog--
	made.begin(i, r)
	e := newEvent(i, connectRequest, 0)
	e.made = made
	e.name(i.uid, made.handle)
	made.describe(e, r)
	if i.uid == 0 || !i.channel.put(e) {
		i.backlog++
		m.destroy(made)
		return
	}
	if r.packet.From.elsewhere() {
		i.pace.gave(made)
		made.listener = i
	}
}

// rejectFull rejects a request because of the listener's backlog.
func (i *id) rejectFull(r *request) {
	i.explain("a request for a connection is rejected: as many requests as the backlog allows wait to be read")
	i.m.refuse(r)
}

// refuse answers a request that its listener cannot take.
func (m *Manager) refuse(r *request) {
	if r.connect == nil {
		m.answer(r, &SIDRREP{To: r.from, Service: r.service, Status: sidrReject})
	} else {
		m.answer(r, &REJ{To: r.from, Reason: rejConsumer})
	}
}

// begin makes the new id the passive end of a request.
func (i *id) begin(listener *id, r *request) {
	i.state = connecting
	src, dst := parseIPHeader(r.data, r.service)
	if listener.src.family == afIB || src.family == 0 {
		src = sockaddr{family: afIB, addr: netip.AddrFrom16(r.packet.From.GID), pkey: defaultPKey,
			sid: r.service, mask: ^uint64(0)}
		dst = sockaddr{family: afIB, addr: netip.AddrFrom16(r.packet.To.GID), pkey: defaultPKey,
			sid: r.service, mask: ^uint64(0)}
	}
	i.src, i.dst, i.remote = dst, src, r.packet.From.PortAddress
	i.service = listener.service
	i.timeout = listener.timeout
	if listener.src.any() || !listener.attached {
		i.attachTo(r.packet.To.GID.name())
	} else {
		i.local, i.attached = listener.local, true
	}
	l := i.newLink(r.packet.To, r.packet.From)
	l.peer = r.from
	i.m.peers[remote{l.other, l.peer}] = i
	l.begins()
	if l.other.elsewhere() {
		l.tid, l.answerTime, l.tries = r.packet.TID, timewait(responseTimeout), maxCMRetries
		l.held = i.hold(l.self, l.other.PortAddress)
		i.path, _ = i.pathTo(l.self, l.other.PortAddress) // misfit has looked
	}
	if q := r.connect; q != nil {
		i.qpType = q.QPType
		l.state = requested
		l.peerQPN, l.peerPSN, l.mtu, l.timeout = q.QPN, q.PSN, q.MTU, q.Timeout
		l.depth, l.resources, l.retry, l.rnr = q.Resources, q.Depth, q.Retry, q.RNR
		if l.other.elsewhere() {
			i.service = q.Path.TrafficClass
			l.answerTime, l.tries = timewait(min(q.CM.Local, longestAnswer)), q.CM.Retries
		}
	} else {
		l.state = sidrRequested
	}
}

// describe puts the fields of a request into the event about it. The depths are swapped: what
// the sender can do is what the receiver may ask for.
func (i *id) describe(e *event, r *request) {
	field := r.data
	if e.id.src.family != afIB {
		field = field[ipHeader:]
	}
	e.privateData(field)
	if q := r.connect; q != nil {
		e.conn(q.QPN, q.Depth, q.Resources, q.FlowControl, q.Retry, q.RNR, q.SRQ)
		e.ece(q.ECE)
	}
}
