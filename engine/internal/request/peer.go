//go:build linux && (amd64 || arm64)

package request

import (
	"errors"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// A client queries the device's own address (address) and sets the peer of a queue pair (set_peer).
// Both requests are served off the engine's thread, because the router may wait: it queries the kernel, and
// opens sockets.

// callerHandlers has the functions that serve requests on the caller's goroutine, not on the engine's thread.
var callerHandlers = map[control.Op]callerHandler{
	control.OpAddress: address,
	control.OpSetPeer: setPeer,

	control.OpAnnounce:         announce,
	control.OpNextAnnouncement: whileOpen(control.OpNextAnnouncement, nextAnnouncement),
	control.OpNextChange:       whileOpen(control.OpNextChange, nextChange),
	control.OpAnnounceTo:       announceTo,

	control.OpOpenBox:     whileOpen(control.OpOpenBox, openBox),
	control.OpSendMessage: sendMessage,
	control.OpNextMessage: nextMessage,

	control.OpSetFaults:  setFaults,
	control.OpQueryFault: whileOpen(control.OpQueryFault, queryFault),
}

// A callerHandler serves a request with this payload.
type callerHandler func(c *Client, payload []byte) (control.Message, error)

// whileOpen returns a handler of requests of an operation, which serve serves while no other request of the
// client is served, unless the client is closed.
func whileOpen[M any, P interface {
	*M
	control.Message
}](op control.Op, serve func(c *Client, m *M) (control.Message, error)) callerHandler {
	return func(c *Client, payload []byte) (control.Message, error) {
		var m M
		if err := control.Parse(op, payload, P(&m)); err != nil {
			return nil, control.Errorf(control.CodeInvalid, "%v", err)
		}
		c.Mu.Lock()
		defer c.Mu.Unlock()
		if c.Closed {
			return nil, object.ErrClosed
		}
		return serve(c, &m)
	}
}

// address returns the address at which queue pairs of other hosts reach those of this device.
func address(c *Client, payload []byte) (control.Message, error) {
	if err := control.Parse(control.OpAddress, payload, &control.Empty{}); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	var a control.Address
	if r := c.router(); r != nil {
		a.GID = r.Own()
	}
	return &a, nil
}

// router returns the device's router, nil if the device has none.
func (c *Client) router() (r nic.Router) {
	c.Device.DoWith(mailbox.NoWork, func() { r = c.Device.Router })
	return r
}

// setPeer finds the path to the device of the peer that a queue pair gets in its next transition to RTR. If
// the path is found by an address, the router holds it until ReleasePeer.
func setPeer(c *Client, payload []byte) (control.Message, error) {
	var m control.Peer
	if err := control.Parse(control.OpSetPeer, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.Mu.Lock() // so that no other request changes the queue pair until the path is set
	defer c.Mu.Unlock()
	if c.Closed {
		return nil, object.ErrClosed
	}
	if err := c.checkPeer(&m); err != nil {
		return nil, err
	}
	set, err := c.findPeer(&m)
	if err != nil {
		return nil, err
	}
	c.do(mailbox.NoWork, control.OpSetPeer.String(), func() {
		q := c.QPs[m.QPN]
		c.ReleasePeer(q)
		q.Conn.Set = set
	})
	c.Finish()
	return &control.Empty{}, nil
}

// checkPeer refuses a peer for a queue pair that cannot have one, or not in its present state.
func (c *Client) checkPeer(m *control.Peer) (err error) {
	c.Device.DoWith(mailbox.NoWork, func() {
		q, ok := c.QPs[m.QPN]
		switch {
		case !ok:
			err = object.NotFound("QP", m.QPN)
		case q.Transport != control.QPTypeRC && q.Transport != control.QPTypeUC:
			err = control.Errorf(control.CodeInvalid, "QP %#06x: only queue pairs of type RC or UC are told where their peer is", m.QPN)
		case q.Attr.State != control.StateRST && q.Attr.State != control.StateINIT:
			err = control.Errorf(control.CodeState, "QP %#06x is in %s; a peer is set in RST or INIT", m.QPN, states.Name(q.Attr.State))
		}
	})
	return err
}

// findPeer returns the path to a peer on another device. It returns nil if the transition to RTR needs no
// path, or finds the path by the device's GUID alone.
func (c *Client) findPeer(m *control.Peer) (*object.SetPeer, error) {
	if m.GUID == c.Device.Runner.GUID {
		return nil, nil
	}
	r := c.router()
	if r == nil {
		return nil, noPath(c.Device, m.QPN, m.GUID, noLinks)
	}
	if m.GUID != 0 {
		if _, err := r.Route(nic.Address{GUID: m.GUID}); err == nil {
			return nil, nil
		}
	}
	h := object.HeldPath{UID: c.UID, GID: m.GID}
	if err := c.Device.Runner.Held.Take(c.Device.Ledger, h); err != nil {
		return nil, err
	}
	to, user := nic.Address{GUID: m.GUID, GID: m.GID}, nic.User{UID: c.UID, Name: c.Client.Name}
	path, free, err := r.HoldPath(to, user)
	if err != nil {
		c.Device.Runner.Held.Drop(c.Device.Ledger, h)
		if errors.Is(err, nic.ErrDenied) {
			return nil, control.Errorf(control.CodeDenied, "QP %#06x: %v", m.QPN, err)
		}
		return nil, noPath(c.Device, m.QPN, m.GUID, err.Error())
	}
	return &object.SetPeer{GUID: m.GUID, Path: path, Release: func() {
		free()
		c.Device.Runner.Held.Drop(c.Device.Ledger, h)
	}}, nil
}

const noLinks = "no link leads there; both QPs must belong to clients of one engine, or both engines need a link (--link)"

// noPath refuses a connection of a queue pair with a queue pair of another device.
func noPath(e Device, qpn uint32, guid uint64, why string) error {
	return control.Errorf(control.CodeInvalid, "QP %#06x: the peer's device is %016x, this one is %016x; %s", qpn, guid, e.Runner.GUID, why)
}
