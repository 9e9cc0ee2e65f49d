package pool

import "fmt"

// A session is one use of the two rings between two nodes, from empty rings on. Each node offers a
// session: a number that it never uses again, in its line about the other node. Beside it the node
// publishes which session of the other node it has accepted. A node uses the rings while
// its offer is accepted and it has accepted the other node's offer.
//
// A node resets its half of the rings before it offers a session: the slots of the ring that it sends into,
// and its count of the other ring. It does not touch the rings again before the session is agreed on. To end
// a session, a node withdraws its acceptance. When the other node sees that, it withdraws its own, and each
// node offers a new session. A node that dies leaves its offer behind. But the number of an offer begins
// with the epoch of the node's life, so the offer of an earlier life is not accepted; and peer_life.go
// closes the port when the epoch changes.
type session struct {
	count uint64 // how many sessions this node has offered to the peer in this life
	mine  uint64 // the session that this node offers; 0: none
	yours uint64 // the session of the peer that this node has accepted; 0: none
}

// end ends the session: this node withdraws its acceptance, if there is one. The caller has taken care that
// the device does not use the rings any more.
func (s *session) end(l *link) {
	if s.mine == 0 {
		return
	}
	s.mine, s.yours = 0, 0
	if l.p.gone.Load() || l.p.ended.Load() != nil || l.p.ousted.Load() {
		return // the line may be another engine's now
	}
	l.p.view.store(linkAt(l.p.cfg.Node, l.peer)+yoursAt, 0)
}

// offer begins a session with empty rings.
//
// Publish: offered session, which covers the reset of this node's half. Observed by link.handshake.
func (s *session) offer(l *link) {
	l.send.Reset()
	l.receive.Reset()
	s.count++
	s.mine = l.p.epoch.Load() + s.count
	l.p.view.store(linkAt(l.p.cfg.Node, l.peer)+mineAt, s.mine)
}

// handshake takes the next step towards a session, or ends it.
//
// Observe: the other node's offer, published by session.offer, and its acceptance, published
// by link.handshake. The acceptance is read first: a node accepts after it has offered, so the offer
// read after it is at least as new.
func (l *link) handshake() {
	s, v := &l.session, &l.p.view
	if s.mine == 0 {
		s.offer(l)
	}
	own, theirs := linkAt(l.p.cfg.Node, l.peer), linkAt(l.peer, l.p.cfg.Node)
	v.invalidate(own, line)
	if v.word(own+mineAt) != s.mine || v.word(own+yoursAt) != s.yours {
		// This node's line was overwritten: perhaps an engine that was this node before, and
		// stood still until now.
		v.put(own+yoursAt, s.yours)
		v.store(own+mineAt, s.mine)
	}
	v.invalidate(theirs, line)
	accepted := v.word(theirs + yoursAt)
	offered := v.word(theirs + mineAt)
	if offered>>32 != l.epoch>>32 {
		offered = 0 // of an earlier life
	}
	if l.up {
		if offered != s.yours || accepted != s.mine {
			l.down(fmt.Sprintf("node %d begins the link anew", l.peer))
		}
		return
	}
	if offered == 0 {
		l.wait("node %d has not begun the link")
		return
	}
	if offered != s.yours {
		s.yours = offered
		// Publish: accepted session. Observed by link.handshake of the other node.
		v.store(own+yoursAt, offered)
	}
	if accepted == s.mine {
		l.setUp()
	} else {
		l.wait("node %d has not accepted the link")
	}
}
