//go:build linux && (amd64 || arm64)

package cm

// A Carrier takes messages to the nodes that own their addresses. Carry does not wait and does
// not call back; it returns an error if no node can be reached there.
type Carrier interface{ Carry(p Packet) error }

// A post is the carrier of a manager. It is used under the manager's lock. It delivers messages for
// addresses of this engine itself, and gives the others to the wire.
type post struct{ m *Manager }

func (l post) Carry(p Packet) error {
	if p.To.elsewhere() {
		return l.m.transmit(p)
	}
	l.m.arrived = append(l.m.arrived, p)
	return nil
}

// unlock delivers the messages that have been sent, and gives up the lock. It is called at the end
// of each command, so a message never arrives in the middle of one. Datagrams go to the wire
// without the lock: that can take the time of a step of the device.
func (m *Manager) unlock() {
	m.deliver()
	leaving := m.leaving
	m.leaving = nil
	m.mu.Unlock()
	for _, o := range leaving {
		if err := m.Wire.SendMAD(o.from, o.to, o.mad); err != nil {
			m.mu.Lock()
			m.unsent(o, err)
			m.mu.Unlock()
		}
	}
}

// deliver delivers the messages for this engine.
func (m *Manager) deliver() {
	for len(m.arrived) > 0 {
		p := m.arrived[0]
		m.arrived = m.arrived[1:]
		m.receive(p)
	}
	m.arrived = nil
}

// receive takes a message of a link of this engine.
func (m *Manager) receive(p Packet) {
	switch msg := p.Message.(type) {
	case *REQ:
		m.receiveRequest(&request{packet: p, from: msg.From, service: msg.Service, data: msg.Data[:],
			connect: msg})
		return
	case *SIDRREQ:
		m.receiveRequest(&request{packet: p, from: msg.From, service: msg.Service, data: msg.Data[:]})
		return
	case *REJ:
		if msg.To == 0 { // the sender of a request takes it back before it has an answer
			m.withdrawn(remote{p.From, msg.From}, msg)
			return
		}
	}
	if i := m.links[p.Message.to()]; i != nil && i.link.other == p.From {
		i.link.receive(p.Message)
	}
}

// A remote identifies a link of another node.
type remote struct {
	address Address
	number  linkNumber
}

func (m *Manager) withdrawn(from remote, msg *REJ) {
	if i := m.peers[from]; i != nil {
		i.link.receive(msg)
		return
	}
	if r := m.waiting[from]; r != nil {
		m.endWait(r)
	}
}

// answer sends an answer to a request that has no link here.
func (m *Manager) answer(r *request, msg Message) {
	if r.packet.From.elsewhere() {
		m.counts.Sent++
	}
	_ = m.carrier.Carry(Packet{From: r.packet.To, To: r.packet.From, TID: r.packet.TID, Message: msg})
}
