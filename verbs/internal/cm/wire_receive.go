//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"slices"
)

// ReceiveMAD takes a datagram that has arrived at queue pair 1 of a port of this engine, from queue
// pair 1 of a port elsewhere, which is named as Network.Owner names it. b can have any contents; it
// is read once, and not kept. network says that it has come over a network, from which anybody can send.
// ReceiveMAD sends answers before it returns.
func (m *Manager) ReceiveMAD(from, to PortAddress, b []byte, network bool) {
	var tid uint64
	var msg Message
	err := fmt.Errorf("%d bytes", len(b))
	if len(b) == MADSize {
		mad := MAD(slices.Clone(b))
		tid, msg, err = parseMAD(&mad)
	}
	m.mu.Lock()
	defer m.unlock()
	m.counts.Received++
	if err != nil {
		m.counts.Malformed++
		return
	}
	m.receiveFar(Packet{From: Address{Elsewhere, from}, To: Address{nil, to}, TID: tid, Message: msg},
		network)
}

// CountMalformed counts a packet that was no datagram.
func (m *Manager) CountMalformed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Received++
	m.counts.Malformed++
}

// receiveFar gives a message from elsewhere to its link, or to receiveFarRequest if it is a request.
func (m *Manager) receiveFar(p Packet, network bool) {
	switch msg := p.Message.(type) {
	case *REQ:
		m.receiveFarRequest(&request{packet: p, from: msg.From, service: msg.Service, data: msg.Data[:],
			connect: msg, network: network})
		return
	case *SIDRREQ:
		m.receiveFarRequest(&request{packet: p, from: msg.From, service: msg.Service, data: msg.Data[:],
			network: network})
		return
	case *REJ:
		if msg.To == 0 {
			m.withdrawnFar(p, msg)
			return
		}
	}
	i := m.links[p.Message.to()]
	if i == nil || i.link.other != p.From || i.link.self.PortAddress != p.To.PortAddress {
		m.unknown(p)
		return
	}
	if !i.link.receiveFar(p) {
		m.counts.Strangers++
	}
}

// receiveFar takes a message from the host of the other end. It returns false if the other end cannot have
// sent the message. A stranger can forge its address, and only random numbers keep such messages out:
//
//   - Both link numbers have to be right, as far as they are known.
//   - A DREQ begins a transaction, and has to name the queue pair.
//   - Every other message has to have the ID of the transaction of the request, or of the link's own DREQ.
//
// So a forged answer to a request has to guess 64 bits, although the number of the sender's link is not
// known yet.
func (l *link) receiveFar(p Packet) (ok bool) {
	msg := p.Message
	if from := msg.from(); l.peer != 0 && from != l.peer && msg.kind() != kindSIDRREP {
		return false
	}
	if d, ok := msg.(*DREQ); ok {
		switch {
		case d.QPN != l.qpn:
			return false
		case arrivals[arrival{l.state, kindDREQ}] != nil:
			l.tid = p.TID // of the answer
		}
	} else if p.TID != l.tid {
		return false
	}
	l.receive(msg)
	return true
}

// withdrawnFar ends a request whose sender takes it back. The message has to have the ID of the request's
// transaction.
func (m *Manager) withdrawnFar(p Packet, msg *REJ) {
	from := remote{p.From, msg.From}
	known, tid := false, uint64(0) // whether there is a request from this sender, and its transaction ID
	if i := m.peers[from]; i != nil {
		known, tid = true, i.link.tid
	} else if r := m.waiting[from]; r != nil {
		known, tid = true, r.packet.TID
	}
	if known && tid != p.TID {
		m.counts.Strangers++
		return
	}
	m.withdrawn(from, msg)
}

// unknown answers a message for a link that is not here any more, or never was, so that its sender does not
// wait for this end.
func (m *Manager) unknown(p Packet) {
	m.counts.Strangers++
	back := Packet{From: p.To, To: p.From, TID: p.TID}
	switch msg := p.Message.(type) {
	case *DREQ:
		back.Message = &DREP{From: msg.To, To: msg.From}
	case *REP:
		back.Message = &REJ{From: msg.To, To: msg.From, Refused: aboutREP, Reason: rejNumber}
	default:
		return
	}
	m.counts.Sent++
	_ = m.carrier.Carry(back)
}

// receiveFarRequest takes a request from elsewhere: it checks the budgets of the sender, finds the
// namespace that the request is for, and looks for a listener there (receiveRequest).
func (m *Manager) receiveFarRequest(r *request) {
	if m.peers[r.sender()] == nil && m.waiting[r.sender()] == nil && !m.admit(r.packet.From.PortAddress) {
		m.counts.OverBudget++
		return
	}
	_, dst := parseIPHeader(r.data, r.service)
	home := m.Wire != nil
	if home {
		r.packet.To.Namespace, home = m.Wire.Home(r.packet.To.PortAddress, dst.addr.Unmap())
	}
	if !home {
		m.counts.Strangers++
		return
	}
	m.receiveRequest(r)
}

// maxMTU is the largest MTU of a path: 4096 bytes (enum ib_mtu).
const maxMTU = 5

// misfit returns why a listener cannot have the connection that a request from elsewhere is for, and the
// reason for the sender; "" and 0 if it can.
func (i *id) misfit(r *request) (why string, reason rejectReason) {
	q, from, to := r.connect, r.packet.From.PortAddress, r.packet.To.PortAddress
	if q == nil || !r.packet.From.elsewhere() {
		return "", 0
	}
	path, err := i.pathTo(r.packet.To, from)
	otherGIDs := q.Path.LocalGID != from.GID || q.Path.RemoteGID != to.GID
	otherLID := from.infiniband() && q.Path.LocalLID != from.LID
	tooLong := path.MTU != 0 && q.MTU > path.MTU
	switch {
	case q.QPType == 0:
		return "it is for a transport that is not known here", rejTransport
	case otherGIDs || otherLID:
		return "the addresses in it are not those of its packet", rejGID
	case err != nil:
		return err.Error(), rejGID
	case q.MTU == 0 || q.MTU > maxMTU || tooLong:
		return fmt.Sprintf("its MTU is %d, and that of the path to it is %d (numbers of enum ib_mtu)", q.MTU, path.MTU), rejMTU
	}
	return "", 0
}
