//go:build linux && (amd64 || arm64)

package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"golang.org/x/sys/unix"
)

// Hold returns the path to an address and holds it: the path stays until [Carrier.Release] is
// called as often as Hold. An address is a GID: an IPv4-mapped or an IPv6 address. From is a
// local address of the carrier; if it is zero, the carrier takes its first local address of the
// same family.
// When Hold has returned, the kernel knows the address too: its packets do not wait among those of
// strangers. If many addresses become known in a short time, that may come up to a second later.
func (c *Carrier) Hold(to nic.Address) (nic.Path, error) {
	p, err := c.route(to, c.paths.hold)
	if err == nil {
		c.screenNow(time.Now())
	}
	return p, err
}

// Find is Hold without holding the path. Such a path ends when some thousand other paths
// that are not held were used after it; then packets on it are dropped, and Find returns
// another. Programs may send datagrams to any number of addresses.
func (c *Carrier) Find(to nic.Address) (nic.Path, error) {
	return c.route(to, func(k key, from *local) (*path, error) { return c.paths.use(k, from, wanted) })
}

// FindOnce is Find for a few packets, such as the answer to a stranger. Unless the path was requested by
// Hold or Find, it is one of a stranger's, and ends no other paths.
func (c *Carrier) FindOnce(to nic.Address) (nic.Path, error) {
	return c.route(to, func(k key, from *local) (*path, error) { return c.paths.use(k, from, stranger) })
}

// Route is Find without the reason; it implements fabric.Link. It makes no system calls.
func (c *Carrier) Route(to nic.Address) (nic.Path, bool) {
	p, err := c.Find(to)
	return p, err == nil
}

func (c *Carrier) route(to nic.Address, find func(key, *local) (*path, error)) (nic.Path, error) {
	remote := netip.AddrFrom16(to.GID).Unmap()
	switch {
	case c.port() == nil:
		return nic.Path{}, errors.New("roce: the carrier is not started")
	case to.GUID != 0:
		return nic.Path{}, errors.New("roce: a device is reached by its IP address, not by its GUID")
	case !remote.IsValid() || remote.IsUnspecified() || remote.IsMulticast():
		return nic.Path{}, fmt.Errorf("roce: %v is not the address of a host", remote)
	case !c.allowed(remote):
		return nic.Path{}, fmt.Errorf("roce: %v is not among the allowed peers", remote)
	}
	from, err := c.localFor(netip.AddrFrom16(to.From).Unmap(), remote)
	if err != nil {
		return nic.Path{}, err
	}
	k := key{local: from.number, remote: remote.As16(), class: to.Class &^ ecnMask, hops: to.HopLimit}
	if k.hops == 0 {
		k.hops = defaultHops
	}
	p, err := find(k, from)
	if err != nil {
		return nic.Path{}, err
	}
	c.guard.requestSession(p.peer)
	return nic.Path{Port: c.port(), Number: p.number, Source: p.source.number, MTU: p.MTU()}, nil
}

// PeerPath returns the path to a remote address with which packets are exchanged, from whichever local
// address, and whether there is one: strangers have none.
func (c *Carrier) PeerPath(remote netip.Addr) (nic.Path, bool) {
	port := c.port()
	if port == nil || !c.allowed(remote) {
		return nic.Path{}, false
	}
	for _, l := range *c.locals.Load() {
		if p := c.paths.peer(key{local: l.number, remote: remote.As16(), hops: defaultHops}); p != nil {
			return nic.Path{Port: port, Number: p.number, Source: p.source.number, MTU: p.MTU()}, true
		}
	}
	return nic.Path{}, false
}

// Release ends one hold of a path that Hold has returned.
func (c *Carrier) Release(p nic.Path) { c.paths.release(p.Number) }

// localFor returns the local address that has a GID.
func (c *Carrier) localFor(own, remote netip.Addr) (*local, error) {
	for _, l := range *c.locals.Load() {
		switch {
		case own == l.plain:
			if remote.Is4() != own.Is4() {
				return nil, fmt.Errorf("roce: no path from %v to %v: one is IPv4, the other IPv6", own, remote)
			}
			return l, nil
		case own.IsUnspecified() && remote.Is4() == l.plain.Is4() &&
			remote.IsLinkLocalUnicast() == l.plain.IsLinkLocalUnicast():
			return l, nil
		}
	}
	if own.IsUnspecified() {
		return nil, fmt.Errorf("roce: no path to %v: the carrier has no local address of that kind", remote)
	}
	return nil, errNoAddress(own)
}

func errNoAddress(a netip.Addr) error {
	return fmt.Errorf("roce: %v is not a local address of the carrier (%w)", a, unix.EADDRNOTAVAIL)
}

// allowed reports whether packets are exchanged with a remote address.
func (c *Carrier) allowed(remote netip.Addr) bool {
	if c.cfg.Allowed == nil {
		return true
	}
	for _, p := range c.cfg.Allowed {
		if p.Contains(remote) {
			return true
		}
	}
	return false
}
