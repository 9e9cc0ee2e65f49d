//go:build linux && (amd64 || arm64)

package links

import (
	"errors"
	"net/netip"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/verbs"
)

const (
	gsiHead = packet.BTHSize + packet.DETHSize
	grhSize = 40
)

// SetManagement sets the function that gets the packets for queue pair 1. network says that a packet has come
// by RoCE, over which strangers can send.
func (t *Table) SetManagement(f func(packet []byte, network bool)) {
	if f == nil {
		t.management.Store(nil)
		return
	}
	t.management.Store(&f)
}

// fromRoCE takes a packet for queue pair 1. The carrier has made its GRH from the addresses of
// the datagram.
func (t *Table) fromRoCE(_ uint32, b []byte) {
	if t.takeMessage(nil, b) {
		return
	}
	f := t.management.Load()
	if f == nil || len(b) < gsiHead+grhSize {
		return
	}
	// An answer goes by a pool or UCX if one leads there. Anybody can forge the address of a node of a
	// pool, and must not make this engine open rings to it. The node itself would have opened them, and
	// sent by them.
	p, ok := t.current.Load().look(nic.Address{GID: sourceOf(b[gsiHead:][:grhSize])})
	if ok && p.Port == nil {
		return
	}
	(*f)(b, true)
}

// fromPeer takes a packet for queue pair 1 from a pool or from UCX. Its sender has written the GRH, so
// the source must be an address of that engine.
func (t *Table) fromPeer(from nic.Path, b []byte) {
	if t.takeMessage(&from, b) {
		return
	}
	f := t.management.Load()
	if f == nil || len(b) < gsiHead+grhSize {
		return
	}
	p, err := t.routeOnce(nic.Address{GID: sourceOf(b[gsiHead:][:grhSize])})
	if err == nil && p.Port == from.Port && p.Number == from.Number {
		(*f)(b, false)
	}
}

// sourceOf returns the source in a GRH.
func sourceOf(grh []byte) (gid [16]byte) {
	if grh[0]>>4 == 6 {
		return [16]byte(grh[8:24])
	}
	return netip.AddrFrom4([4]byte(grh[32:36])).As16()
}

// SendManagement sends a packet to queue pair 1 of a port. It waits for a local address that is being
// opened for a program that connects or listens, but opens none and keeps none open: what strangers send
// is answered, and must not do that.
func (t *Table) SendManagement(to verbs.RemotePort, head, grh, payload []byte) error {
	a := address(to, 0, 0)
	link, err := t.reach(a, false)
	switch {
	case err != nil:
		return err
	case link != nil:
		return link.Port.SendManagement(link.Number, head,
			append(append(make([]byte, 0, len(grh)+len(payload)), grh...), payload...))
	}
	if own := netip.AddrFrom16(to.From).Unmap(); routable(own) {
		if err := t.await(own); err != nil {
			return err
		}
	}
	p, err := t.routeOnce(a)
	if err != nil {
		return err
	}
	if p.Port == nil {
		return errors.New("the address is of this engine")
	}
	return p.Port.SendManagement(p.Number, head, payload)
}
