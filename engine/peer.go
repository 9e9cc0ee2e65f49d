//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"sync"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// A client asks for the device's own address (address) and says where the peer of a queue pair is
// (set_peer). Both are served off the engine's thread, because the router may wait: it asks the
// kernel, and opens sockets.

// mayWait has the requests that are not served by the engine's thread.
var mayWait = map[control.Op]func(c *caller, payload []byte) (control.Message, error){
	control.OpAddress: (*caller).address,
	control.OpSetPeer: (*caller).setPeer,

	control.OpAnnounce:         (*caller).announce,
	control.OpNextAnnouncement: (*caller).nextAnnouncement,
	control.OpAnnounceTo:       (*caller).announceTo,
}

// address returns the address at which queue pairs of other hosts reach those of this device.
func (c *caller) address(payload []byte) (control.Message, error) {
	if err := control.Parse(control.OpAddress, payload, &control.Empty{}); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	var a control.Address
	if r := c.router(); r != nil {
		a.GID = r.Own()
	}
	return &a, nil
}

func (c *caller) router() (r nic.Router) {
	c.e.doWith(noWork, func() { r = c.e.router })
	return r
}

// A setPeer is what set_peer has said of a queue pair.
type setPeer struct {
	guid    uint64 // the peer's device
	path    nic.Path
	release func() // ends the use of the path
}

// setPeer finds the path to the device that a queue pair is connected with next. A path to an address
// is held. It counts for the next transition to RTR.
func (c *caller) setPeer(payload []byte) (control.Message, error) {
	var m control.Peer
	if err := control.Parse(control.OpSetPeer, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.mu.Lock() // until the path is set: no other request changes the queue pair meanwhile
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if err := c.checkPeer(&m); err != nil {
		return nil, err
	}
	set, err := c.findPeer(&m)
	if err != nil {
		return nil, err
	}
	c.do(changesWork, control.OpSetPeer.String(), func() {
		q := c.qps[m.QPN]
		c.forgetPeer(q)
		q.conn.set = set
	})
	c.finish()
	return &control.Empty{}, nil
}

func (c *caller) checkPeer(m *control.Peer) (err error) {
	c.e.doWith(noWork, func() {
		switch q, ok := c.qps[m.QPN]; {
		case !ok:
			err = notFound("QP", m.QPN)
		case q.transport != control.QPTypeRC && q.transport != control.QPTypeUC:
			err = control.Errorf(control.CodeInvalid, "QP %#06x: only queue pairs of type RC or UC are told where their peer is", m.QPN)
		case q.attr.State != control.StateRST && q.attr.State != control.StateINIT:
			err = control.Errorf(control.CodeState, "QP %#06x is in %s; a peer is set in RST or INIT", m.QPN, stateName(q.attr.State))
		}
	})
	return err
}

// forgetPeer ends what set_peer has said of q. A path is released when the request has been served. It is
// called in requests of the client only, because the queue c.after is theirs.
func (c *client) forgetPeer(q *qp) {
	if q.conn.set != nil {
		c.after = append(c.after, q.conn.set.release)
	}
	q.conn.set = nil
}

// A heldPath is a path that queue pairs of a user hold. It is charged to the user once.
type heldPath struct {
	uid uint32
	gid [16]byte
}

// findPeer returns the path to a peer on another device: nil if the transition to RTR finds the path by
// the device's GUID alone, or needs none.
func (c *caller) findPeer(m *control.Peer) (*setPeer, error) {
	if m.GUID == c.e.guid {
		return nil, nil
	}
	r := c.router()
	if r == nil {
		return nil, c.r.noPath(m.QPN, m.GUID, noLinks)
	}
	if m.GUID != 0 {
		if _, err := r.Route(nic.Address{GUID: m.GUID}); err == nil {
			return nil, nil
		}
	}
	h := heldPath{c.uid, m.GID}
	if err := c.e.held.take(c.e.ledger, h); err != nil {
		return nil, err
	}
	path, free, err := r.HoldPath(nic.Address{GID: m.GID}, nic.User{UID: c.uid, Name: c.name})
	if err != nil {
		c.e.held.drop(c.e.ledger, h)
		if errors.Is(err, nic.ErrDenied) {
			return nil, control.Errorf(control.CodeDenied, "QP %#06x: %v", m.QPN, err)
		}
		return nil, c.r.noPath(m.QPN, m.GUID, err.Error())
	}
	return &setPeer{m.GUID, path, func() {
		free()
		c.e.held.drop(c.e.ledger, h)
	}}, nil
}

const noLinks = "no link leads there; both QPs must belong to clients of one engine, or both engines need a link (--link)"

// noPath refuses a connection of a queue pair with a queue pair of another device.
func (e nicDevice) noPath(qpn uint32, guid uint64, why string) error {
	return control.Errorf(control.CodeInvalid, "QP %#06x: the peer's device is %016x, this one is %016x; %s", qpn, guid, e.guid, why)
}

// heldPaths counts the queue pairs that hold each path.
type heldPaths struct {
	mu     sync.Mutex
	counts map[heldPath]int
}

// take counts one more queue pair. The first one of a path is charged.
func (p *heldPaths) take(l *quota.Ledger, h heldPath) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[h] == 0 {
		if err := l.Take(h.uid, quota.Charge{quota.Paths: 1}); err != nil {
			return err
		}
	}
	if p.counts == nil {
		p.counts = make(map[heldPath]int)
	}
	p.counts[h]++
	return nil
}

func (p *heldPaths) drop(l *quota.Ledger, h heldPath) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[h]--; p.counts[h] == 0 {
		delete(p.counts, h)
		l.Refund(h.uid, quota.Charge{quota.Paths: 1})
	}
}
