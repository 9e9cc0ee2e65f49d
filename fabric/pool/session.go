package pool

import (
	"fmt"
	"hash/crc64"
)

// A session is one use of the two rings between two nodes, from empty rings on. Each node offers a session:
// a number that it never uses again, in the pair of its table that names the other node. Beside it the node
// publishes which session of the other node it has accepted. A node uses the rings while its offer is
// accepted and it has accepted the other node's offer.
//
// A node resets the ring that it sends into before it offers a session, and its count of the other ring
// before it accepts one. It does not touch the rings again before the session is agreed on. To end a
// session, a node offers another one, and withdraws its acceptance with that, or takes the pair out of its
// table. When the other node sees that, it does the same. A node that dies leaves its offer behind. But the
// number of an offer begins with the epoch of the node's life, so the offer of an earlier life is not
// accepted; and peer_life.go closes the port when the epoch changes.
type session struct {
	mine  uint64 // the session that this node offers; 0: none
	yours uint64 // the session of the peer that this node has accepted; 0: none
}

// baseOf returns the number of the first packet in the ring of a session.
func baseOf(session uint64) uint64 {
	var b [8]byte
	be.PutUint64(b[:], session)
	return crc64.Checksum(b[:], table) >> 33
}

// offer begins a session with an empty ring. A session that is offered while the one before was never seen by
// the peer has another number all the same.
//
// Publish: offered session, which covers the reset of the ring, and where it is. Observed by view.pair. The
// bit of the peer (names.go) is before it, and so before the change that is reported.
func (r *pair) offer() {
	p := r.l.p
	p.sessions++
	if !p.sound(r.growth.now) {
		r.l.close("memory of the ring is lost") // it is opened again in other pages
		return
	}
	r.mine = p.epoch.Load() + p.sessions
	r.rebase()
	r.send.Reset(baseOf(r.mine))
	p.putName(r.l.peer, true)
	p.view.put(r.at+yoursAt, 0)
	p.view.putPlace(r.at, &r.place)
	r.putHeld()
	p.view.store(r.at+mineAt, r.mine)
	p.reportChange()
}

// restore writes this node's pair again if others have overwritten it: perhaps an engine that was this node
// before, and stood still until now. As long as the link is not up, the peer has perhaps not found the pair.
func (r *pair) restore() {
	v := &r.l.p.view
	if !r.l.up {
		r.l.p.restoreName(r.l.peer)
	}
	v.invalidate(r.at, line)
	peer, size := r.place.words()
	if v.word(r.at+mineAt) == r.mine && v.word(r.at+yoursAt) == r.yours && v.word(r.at+peerAt) == peer &&
		v.word(r.at+sizeAt) == size {
		return
	}
	v.put(r.at+sizeAt, size)
	v.put(r.at+peerAt, peer)
	v.put(r.at+yoursAt, r.yours)
	v.store(r.at+mineAt, r.mine)
	r.l.p.reportChange()
}

// handshake takes the next step towards a session, or ends it.
func (l *link) handshake() {
	r := l.pair
	if r.mine == 0 {
		r.offer()
		if l.pair != r {
			return
		}
	}
	r.restore()
	theirs := l.read()
	if theirs.offered>>32 != l.epoch>>32 {
		theirs.offered = 0 // of an earlier life
	}
	r.setTheirsUsed(theirs.used && theirs.offered != 0, l.p.clock.ran)
	if l.up && theirs.peer < 0 && !r.queried(l.p.clock.ran) && r.stats().QueuePairs == 0 {
		l.idleAgain("the other node has given them back")
		return
	}
	if l.up {
		if theirs.offered != r.yours || theirs.accepted != r.mine {
			l.down(fmt.Sprintf("node %d begins the link anew", l.peer))
		}
		return
	}
	if theirs.offered == 0 {
		if r.yours != 0 {
			r.session = session{} // the other node, which had accepted it, takes it for ended
		}
		l.wait(l.unanswered())
		return
	}
	if theirs.offered != r.yours {
		if err := r.accept(&theirs); err != nil {
			l.suspect(l.p.time.Now())
			l.down(fmt.Sprintf("node %d: %v", l.peer, err))
			return
		}
	}
	if theirs.accepted == r.mine {
		l.setUp()
	} else {
		l.wait("node %d has not accepted the link")
	}
}

// accept accepts the session that the peer offers.
//
// Publish: accepted session, which covers the reset of the count. Observed by view.pair of the other node.
func (r *pair) accept(theirs *entry) error {
	l := r.l
	p, space := l.p, l.space()
	ring, err := theirs.ringIn(space)
	if err != nil {
		return err
	}
	if err := r.receive.Open(ring, theirs.ring); err != nil {
		return err
	}
	r.receive.Space(space)
	r.receive.Reset(baseOf(theirs.offered))
	r.send.Consume(p.view.mem[l.theirsAt()+countAt:])
	r.yours = theirs.offered
	p.view.store(r.at+yoursAt, r.yours)
	return nil
}
