//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// Queue pairs whose peers are elsewhere: on other engines, or on hosts with other devices. The
// fabric finds the path, and this file gives it to the engine before the queue pair goes to RTR. As
// long as the queue pair is connected, it holds the path and the local address of the path.

// connectElsewhere gives the engine the path to a queue pair's peer, if the peer is not on this
// engine. The path is held for the queue pair until the next call, or until x.releasePath.
func (x *uctx) connectElsewhere(q *qp, to peerAddress) error {
	if x.isHere(to) {
		x.releasePath(q.object)
		if x.s.fabric == nil {
			return nil
		}
		return x.client.SetPath(q.number, nic.Path{})
	}
	if x.s.fabric == nil {
		return x.noPeer(to, "both programs must be clients of one engine")
	}
	port := RemotePort{GID: to.gid, LID: to.lid, From: x.gidAt(int(to.sourceGID))}
	if x.device.lid == 0 {
		port.LID = 0
	}
	path, release, err := x.s.path(x.user(), port, to.class, to.hops)
	var overShare *control.Error // the user already holds its share of paths
	if errors.As(err, &overShare) {
		return err
	}
	if errors.Is(err, nic.ErrDenied) {
		return refuse(ePERM, "peer %s: %v", gidText(to.gid), err)
	}
	if err != nil {
		return x.noPeer(to, err.Error())
	}
	x.holdPath(q.object, release)
	return x.client.SetPath(q.number, path)
}

// gidAt returns an entry of the context's GID table.
func (x *uctx) gidAt(index int) (gid [gidSize]byte) {
	if e, ok := x.net.entry(x.device, index); ok {
		gid = e.gid
	}
	return gid
}

// holdForDatagrams holds the path for datagrams to an address elsewhere, and subscribes to datagrams at the
// GID of their sender, so that answers come back. If there is no path, the program gets the explanation
// when it sends a datagram. If the user already holds its share of paths, the path is not held, and may end
// between two datagrams. The error says that the user may not send to the address.
func (x *uctx) holdForDatagrams(o *object, to peerAddress) error {
	if x.s.fabric == nil || x.isHere(to) {
		return nil
	}
	if x.device.lid != 0 { // see subscribePort
		return nil
	}
	if (&address{gid: to.gid}).ip().IsMulticast() {
		return nil
	}
	port := RemotePort{GID: to.gid, From: x.gidAt(int(to.sourceGID))}
	network, err := x.s.fabric.May(port, x.user())
	switch {
	case errors.Is(err, nic.ErrDenied):
		return refuse(ePERM, "address %s: %v", gidText(to.gid), err)
	case err != nil:
		return nil
	}
	drop := x.subscriber.subscribe(nic.Source{GID: port.From, Network: network})
	free := func() {}
	if _, release, err := x.s.path(x.user(), port, 0, 0); err == nil {
		free = release
	}
	x.holdPath(o, func() { free(); drop() })
	return nil
}

// subscribePort subscribes the program to datagrams from engines in pools and over UCX at its InfiniBand
// port, as long as the context lives: libmlx5 makes address handles for LIDs without a call, so nothing else
// says whether a program needs them.
func (x *uctx) subscribePort() {
	if x.s.fabric == nil || x.device.lid == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	global := x.subscriber.subscribe(nic.Source{GID: x.device.linkLocal()})
	local := x.subscriber.subscribe(nic.Source{}) // datagrams without a GRH
	x.holdPath(nil, func() { global(); local() })
}

// holdPath keeps the function that ends an object's use of a path, in place of one kept before.
func (x *uctx) holdPath(o *object, release func()) {
	x.releasePath(o)
	if x.held == nil {
		x.held = make(map[*object]func())
	}
	x.held[o] = release
}

// releasePath ends an object's use of a path, if it has one.
func (x *uctx) releasePath(o *object) {
	if f := x.held[o]; f != nil {
		delete(x.held, o)
		f()
	}
}

// releasePaths ends the uses of all objects of the context.
func (x *uctx) releasePaths() {
	for o := range x.held {
		x.releasePath(o)
	}
}

// hasPort reports whether an address is one of a port of this server, in any namespace.
func (s *Server) hasPort(gid [gidSize]byte, lid uint16) bool {
	if lid != 0 {
		return s.hasLID(lid) || lid == permissiveLID
	}
	if a := (address{gid: gid}); a.class() == classLoopback {
		return true // packets to it never leave their namespace
	}
	_, d := s.owner(s.nowhere, gid)
	return d != nil
}
