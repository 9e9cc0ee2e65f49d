//go:build linux && (amd64 || arm64)

package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/fabric/roce"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs"
)

// Route returns the path to an address. The zero path leads to this engine itself.
func (t *Table) Route(to nic.Address) (nic.Path, error) {
	return t.route(to, (*snapshot).find, (*roce.Carrier).Find)
}

// routeOnce is Route for packets to and from strangers, who must not end the paths of this engine, and open
// none.
func (t *Table) routeOnce(to nic.Address) (nic.Path, error) {
	return t.route(to, (*snapshot).look, (*roce.Carrier).FindOnce)
}

func (t *Table) route(
	to nic.Address, linked func(*snapshot, nic.Address) (nic.Path, bool),
	find func(*roce.Carrier, nic.Address) (nic.Path, error),
) (nic.Path, error) {
	s := t.current.Load()
	local := t.local.Load()
	switch {
	case to.GUID == t.dev.GUID():
		return nic.Path{}, nil
	case to.GUID == 0 && local != nil && (*local)(to.GID, to.LID):
		return nic.Path{}, nil
	}
	if p, ok := linked(s, to); ok {
		if p.Port == nil {
			return p, nic.ErrOpening
		}
		return p, nil
	}
	switch {
	case to.GUID != 0:
		return nic.Path{}, fmt.Errorf("no link leads to engine %016x", to.GUID)
	case to.LID != 0:
		return nic.Path{}, fmt.Errorf("no link leads to LID %#x", to.LID)
	case s.roce != nil:
		return find(s.roce, to)
	}
	return nic.Path{}, fmt.Errorf("no link leads to %v", netip.AddrFrom16(to.GID).Unmap())
}

// find returns the path to an address over a pool or UCX.
func (s *snapshot) find(to nic.Address) (path nic.Path, ok bool) {
	path, l := s.lead(to)
	return path, l != nil
}

// HoldPath returns the path of a native client's queue pair to an engine or an address. It holds the path,
// and the own address, until release is called.
func (t *Table) HoldPath(to nic.Address, who nic.User) (path nic.Path, release func(), err error) {
	if to.GUID != 0 {
		p, err := t.reach(nic.Address{GUID: to.GUID}, false)
		if p != nil {
			return *p, func() {}, nil
		}
		if err != nil {
			return path, nil, err
		}
	}
	if to.GID == ([16]byte{}) {
		return path, nil, errors.New("no link leads there, and the peer's engine has no IP address for RoCE (--link auto or roce:ADDRESS at that engine)")
	}
	to.From = t.Own()
	own, remote := netip.AddrFrom16(to.From).Unmap(), netip.AddrFrom16(to.GID).Unmap()
	switch {
	case to.From == ([16]byte{}):
		return path, nil, fmt.Errorf("no link leads there, and not by RoCE to %v, because this engine has no IP address for it (--link auto or roce:ADDRESS)", remote)
	case own == remote:
		return path, nil, fmt.Errorf("no link leads there; RoCE does not connect two engines with one address (%v), but a pool connects engines of one host (--link pool:PATH)", own)
	case own.Is4() != remote.Is4():
		return path, nil, fmt.Errorf("no link leads there, and not by RoCE, because this engine is %v and the peer's is %v; name local addresses of one version of IP (--link roce:ADDRESS)", own, remote)
	}
	return t.Path(verbs.RemotePort{GID: to.GID, From: to.From}, 0, 0, who)
}

// Own returns the address of this host that native clients send their peers: the first address that --link
// names. If --link names none and RoCE opens by itself, it is the address from which the kernel sends to the
// Internet, or else the host's first address; with auto,address=, only addresses that auto,address= names
// count. The address stays the same as long as the host has it, because both ends of a connection have to
// mean the same address.
func (t *Table) Own() (gid [16]byte) {
	for _, a := range t.options.Local {
		if routable(a) {
			return a.As16()
		}
	}
	if !t.options.Auto {
		return gid
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list := hostAddresses()
	if t.options.Addresses != nil {
		list = slices.DeleteFunc(list, func(a netip.Addr) bool { return !within(t.options.Addresses, a) })
	}
	if !slices.Contains(list, t.own) {
		t.own = choose(list)
	}
	if t.own.IsValid() {
		gid = t.own.As16()
	}
	return gid
}

// choose returns one of the addresses of this host; the zero Addr if there is none.
func choose(list []netip.Addr) (a netip.Addr) {
	for _, far := range farAway {
		if from, ok := sourceFor(far).(*net.UDPAddr); ok {
			if a = from.AddrPort().Addr().Unmap(); slices.Contains(list, a) {
				return a
			}
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return netip.Addr{}
}

// farAway has addresses to which there is only a default route (RFC 5737, RFC 3849).
var farAway = [...]netip.Addr{
	netip.AddrFrom4([4]byte{192, 0, 2, 1}),
	netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}),
}

// SetLocal sets the function that knows the addresses of this engine's ports.
func (t *Table) SetLocal(f func(gid [16]byte, lid uint16) bool) {
	t.local.Store(&f)
	t.announce()
}

// SetAddresses sends the peers in pools and over UCX the addresses of this engine's ports. A link
// sends only the first ones, as many as it has room for.
func (t *Table) SetAddresses(list []verbs.RemotePort) {
	for _, l := range t.current.Load().links {
		var err error
		most := len(list)
		switch l := l.(type) {
		case *pool.Pool:
			most = min(most, pool.MaxAddresses)
			told := make([]pool.Address, most)
			for i := range told {
				told[i] = pool.Address{GID: list[i].GID, LID: list[i].LID}
			}
			err = l.SetAddresses(told)
		case *ucx.Carrier:
			most = min(most, ucx.MaxAddresses)
			told := make([]ucx.Address, most)
			for i := range told {
				told[i] = ucx.Address{GID: list[i].GID, LID: list[i].LID}
			}
			err = l.SetAddresses(told)
		}
		if err != nil {
			t.log.Warn("addresses not told", "link", l.Name(), "error", err.Error())
		}
		if most < len(list) {
			t.log.Warn("some addresses not told", "link", l.Name(), "addresses", len(list), "most", most)
		}
	}
}

// Find returns the port that has an address, if a link can lead there.
func (t *Table) Find(name netip.Addr) (to verbs.RemotePort, ok bool) {
	to.GID = name.As16()
	s := t.current.Load()
	if _, ok := s.look(nic.Address{GID: to.GID}); ok {
		return to, true
	}
	if !routable(name) || (!t.options.Auto && s.roce == nil) {
		return to, false
	}
	return to, t.allowed(name) && sourceFor(name) != nil
}

// routable reports whether RoCE may leave this host for an address.
func routable(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsValid() && !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

// allowed reports whether the address is among the peers that --link names.
func (t *Table) allowed(a netip.Addr) bool {
	return t.options.Peers == nil || within(t.options.Peers, a)
}

// sourceFor returns the local address from which the kernel would send to another one, nil if there
// is no route. No packet is sent.
func sourceFor(a netip.Addr) net.Addr {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.Unmap(), 4791)))
	if err != nil {
		return nil
	}
	defer c.Close()
	return c.LocalAddr()
}

// MTU returns the most bytes of payload in a packet to a port.
func (t *Table) MTU(to verbs.RemotePort) (bytes int, err error) {
	p, err := t.routeOnce(address(to, 0, 0))
	own := netip.AddrFrom16(to.From).Unmap()
	switch {
	case errors.Is(err, nic.ErrOpening):
		return p.MTU, nil
	case err == nil && p.Port == nil:
		return 0, errors.New("the address is of this engine")
	case err != nil && t.options.Auto && to.LID == 0 && routable(own):
		return roce.MTU(own, t.options.Auth.Key != "") // RoCE will be open when packets are sent
	}
	return p.MTU, err
}

func address(to verbs.RemotePort, class, hops uint8) nic.Address {
	return nic.Address{GID: to.GID, From: to.From, LID: to.LID, Class: class, HopLimit: hops}
}

// May says whether a user may send to a port and take packets at to.From, and whether RoCE leads there:
// then strangers can send to that address, too.
func (t *Table) May(to verbs.RemotePort, who nic.User) (network bool, err error) {
	if _, ok := t.current.Load().look(address(to, 0, 0)); ok {
		return false, nil
	}
	remote := netip.AddrFrom16(to.GID).Unmap()
	switch {
	case to.LID != 0 || !routable(remote):
		return false, fmt.Errorf("no link leads to %v (LID %#x)", remote, to.LID)
	case !t.allowed(remote):
		return true, fmt.Errorf("%v is not among the peers of RoCE (--link auto,peer= or roce:ADDRESS,peer=)", remote)
	}
	return true, t.may(netip.AddrFrom16(to.From).Unmap(), who)
}

// Path returns the path to a port of another engine or host for a queue pair. The path and the
// local address that the queue pair names are held until release is called. The error wraps
// nic.ErrDenied if the user may not have it.
func (t *Table) Path(
	to verbs.RemotePort, class, hops uint8, who nic.User,
) (path nic.Path, release func(), err error) {
	a := address(to, class, hops)
	if p, err := t.reach(a, !t.options.Auto && t.current.Load().roce == nil); p != nil {
		return *p, func() {}, nil
	} else if err != nil {
		return path, nil, fmt.Errorf("no link to %v: %w", netip.AddrFrom16(to.GID).Unmap(), err)
	}
	if _, err := t.May(to, who); err != nil {
		return path, nil, err
	}
	remote := netip.AddrFrom16(to.GID).Unmap()
	releaseOwn, err := t.hold(netip.AddrFrom16(to.From).Unmap(), fmt.Sprintf("a queue pair is connected to %v", remote), who)
	if err != nil {
		return path, nil, err
	}
	c := t.current.Load().roce
	if c == nil {
		releaseOwn()
		return path, nil, fmt.Errorf("no link leads to %v, and RoCE does not open by itself here (--link)", remote)
	}
	p, err := c.Hold(a)
	if err != nil {
		releaseOwn()
		return path, nil, err
	}
	return p, func() { c.Release(p); releaseOwn() }, nil
}
