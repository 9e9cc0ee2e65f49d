//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
)

// The backlog of a listener is how many more requests may wait until the program reads their events: id.offer
// takes one from it for each request, and event.read gives it back.

// maxBacklog is the largest backlog, and the backlog of a listener that requests none.
const maxBacklog = 1024

// listen serves LISTEN. The request is struct rdma_ucm_listen.
func (m *Manager) listen(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req[abi.CMListenID:]))
	if err != nil {
		return err
	}
	if err := i.checkState(stepListen); err != nil {
		return err
	}
	if i.state == idle {
		if err := i.bind(c, sockaddr{family: afINET, addr: netip.IPv4Unspecified()}); err != nil {
			return err
		}
	}
	if i.reuse {
		if err := i.mayTake(*i.port, false); err != nil {
			return err
		}
	}
	i.state = stepListen.to
	i.reindex()
	i.backlog = int(int32(le.Uint32(req[abi.CMListenBacklog:])))
	if i.backlog <= 0 || i.backlog > maxBacklog {
		i.backlog = maxBacklog
	}
	i.held = i.hold(i.self(), PortAddress{})
	if i.held.Missing != "" {
		i.explain("id %d is reached by programs of this engine, but not by other hosts at all addresses: %s", i.handle, i.held.Missing)
	}
	m.offerWaiting(*i.port)
	return nil
}

// findListener returns the listener of a request. If there is none, isBound says whether an id that does not
// listen yet is bound to the service. An id that is bound to the address of the request comes before an id
// that is bound to all addresses.
func (m *Manager) findListener(r *request) (found *id, isBound bool) {
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
		isBound = i != nil
	}
	return nil, isBound
}

// serves reports whether a request is for what an id is bound to.
func (i *id) serves(r *request, dst *sockaddr) bool {
	mask := i.sidMask()
	sameService := i.src.service(i.port.space)&mask == r.service&mask
	wantsDatagrams := r.connect == nil
	if !sameService || i.datagram() != wantsDatagrams || !i.reachable(r, dst) {
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

// sidMask returns the bits of a service number that have to be the same in the id and in a request.
func (i *id) sidMask() uint64 {
	if i.src.family == afIB {
		return i.src.mask
	}
	return ^uint64(0)
}

// reachable reports whether a request may be for an id, as far as addresses go. A request of this engine
// may be for every id. Over a network a listener is reached only at the addresses on which it listens, even
// if packets for other programs come in at more addresses. The IP address that a request names has to be
// the address to which its packet was sent.
func (i *id) reachable(r *request, dst *sockaddr) bool {
	to := r.packet.To.PortAddress
	switch {
	case !r.packet.From.elsewhere():
		return true
	case i.state == listening && r.network && !i.held.Covers(to.GID):
		return false
	}
	return i.src.family == afIB || dst.family == 0 || to.infiniband() || gidOf(dst.addr) == to.GID
}

// offer makes an id for a request and notifies the listener's program. If that is not possible, it rejects
// the request.
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
		m.rejectRequest(r)
		return
	}
	i.backlog--
	made.begin(i, r)
	e := newEvent(i, connectRequest, 0)
	e.newID = made
	e.name(i.uid, made.handle)
	made.describe(e, r)
	if i.uid == 0 || !i.channel.put(e) {
		i.backlog++
		m.destroy(made)
		return
	}
	if r.packet.From.elsewhere() {
		i.requests.current = made
		made.listener = i
	}
}

// rejectFull rejects a request because the listener's backlog is used up.
func (i *id) rejectFull(r *request) {
	i.explain("a request for a connection is rejected: as many requests as the backlog allows wait to be read")
	i.m.rejectRequest(r)
}

// rejectRequest rejects a request that its listener cannot take.
func (m *Manager) rejectRequest(r *request) {
	if r.connect == nil {
		m.answer(r, &SIDRREP{To: r.from, Service: r.service, Status: sidrReject})
	} else {
		m.answer(r, &REJ{To: r.from, Reason: rejConsumer})
	}
}

// begin makes the new id the passive end of the connection that a request is for.
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
	l.countHalfOpen()
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
