package nicless

import "github.com/nicless/nicless/internal/control"

// A linkedRequest is a request whose answer says nothing but that it was executed.
type linkedRequest struct {
	op control.Op
	m  control.Message
}

// A linker is a device that takes several requests at once.
type linker interface {
	// callLinked makes requests in their order, until one is refused. It returns how many were executed,
	// and the error of the next one. The list is short: the socket has room for some hundreds of requests,
	// and nobody reads an answer before the last one is sent.
	callLinked(list []linkedRequest) (done int, err error)
}

// minorLinked is the minor version of the protocol that has FlagLinked.
const minorLinked = 12

// callLinked is linker.callLinked for any device: it waits once for all answers if the device can do so, and
// for each answer otherwise.
func (c *client) callLinked(list []linkedRequest) (done int, err error) {
	if err := c.err(); err != nil {
		return 0, err
	}
	if d, ok := c.dev.(linker); ok && c.limits.Minor >= minorLinked {
		done, err = d.callLinked(list)
		return done, c.failed(err)
	}
	for _, r := range list {
		if _, err := c.dev.Call(r.op, r.m, &control.Empty{}); err != nil {
			return done, c.failed(err)
		}
		done++
	}
	return done, nil
}

// connectBy reports where the peer is, if need be, and takes the queue pair to RTR and RTS, all with one wait
// for the engine if that is possible.
func (q *QP) connectBy(what string, peer *Descriptor, rtr, rts *Attr) error {
	list := []linkedRequest{
		{control.OpModifyQP, rtr.request(q.qpn)},
		{control.OpModifyQP, rts.request(q.qpn)},
	}
	set := q.peerToSet(peer)
	if set != nil {
		list = append([]linkedRequest{{control.OpSetPeer, set}}, list...)
	}
	left, err := q.callLinked(list, set, rtr, rts)
	switch {
	case err == nil:
		return nil
	case left == len(list) && set != nil:
		return q.refusedIn(what, wrap(what, err))
	case left > 1:
		return q.refusedIn(what, wrap(modifying, err))
	}
	if a, queryErr := q.Query(); queryErr == nil && a.State == StateERR {
		// The peer's first request came between the two transitions, and was refused.
		return wrap(what, control.Errorf(control.CodeState,
			"QP %#06x went into error while it was being connected, by a request of QP %#06x that it had to refuse; the device's explanation says why", q.qpn, peer.QPN))
	}
	return wrap(modifying, err)
}

// callLinked makes the requests in list, and notes what has changed. left is how many were not executed.
func (q *QP) callLinked(list []linkedRequest, set *control.Peer, rtr, rts *Attr) (left int, err error) {
	q.changes.Lock()
	defer q.changes.Unlock()
	if q.closed.Load() {
		return len(list), ErrClosed
	}
	done, err := q.c.callLinked(list)
	left = len(list) - done
	if left < len(list) && set != nil {
		q.peerRemote.Store(set.GUID != q.c.limits.GUID)
	}
	if left < 2 {
		q.changed(rtr)
	}
	if left < 1 {
		q.changed(rts)
	}
	return left, err
}

// peerToSet returns the message that says to the engine where the peer is: nil if the peer is on this engine,
// and was not on another one before.
func (q *QP) peerToSet(peer *Descriptor) *control.Peer {
	known := peer.Device == q.c.limits.GUID && !q.peerRemote.Load()
	if known || q.c.limits.Minor < minorPeer {
		return nil
	}
	m := &control.Peer{QPN: q.qpn, GUID: peer.Device}
	if peer.Address.IsValid() {
		m.GID = peer.Address.As16()
	}
	return m
}
