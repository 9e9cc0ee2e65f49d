//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// resolveAddr serves RESOLVE_ADDR. The request is struct rdma_ucm_resolve_addr.
func (m *Manager) resolveAddr(c *Call, req []byte) error {
	src, dst := parseSockaddr(req[abi.CMResolveAddrSrcAddr:abi.CMResolveAddrDstAddr]),
		parseSockaddr(req[abi.CMResolveAddrDstAddr:])
	srcSize, dstSize := int(le.Uint16(req[abi.CMResolveAddrSrcSize:])),
		int(le.Uint16(req[abi.CMResolveAddrDstSize:]))
	srcFits := srcSize == 0 || srcSize == src.size()
	dstFits := dstSize != 0 && dstSize == dst.size()
	if le.Uint32(req[abi.CMResolveAddrReserved:]) != 0 || !srcFits || !dstFits {
		return refuse(unix.EINVAL, "RESOLVE_ADDR: addresses of families %d and %d with %d and %d bytes", src.family, dst.family, srcSize, dstSize)
	}
	if srcSize == 0 {
		src = sockaddr{}
	}
	return m.resolve(c, le.Uint32(req[abi.CMResolveAddrID:]), src, dst)
}

// resolveIP serves RESOLVE_IP, which is older. The request is struct rdma_ucm_resolve_ip.
func (m *Manager) resolveIP(c *Call, req []byte) error {
	src := parseSockaddr(req[abi.CMResolveIPSrcAddr:][:unix.SizeofSockaddrInet6])
	dst := parseSockaddr(req[abi.CMResolveIPDstAddr:][:unix.SizeofSockaddrInet6])
	if (src.family != 0 && !src.addr.IsValid()) || !dst.addr.IsValid() {
		return refuse(unix.EINVAL, "RESOLVE_IP: addresses of families %d and %d", src.family, dst.family)
	}
	return m.resolve(c, le.Uint32(req[abi.CMResolveIPID:]), src, dst)
}

// resolve finds the source address for a destination. A wrong command is refused at once; if the destination
// cannot be reached, the program gets an event.
func (m *Manager) resolve(c *Call, handle uint32, src, dst sockaddr) error {
	i, err := m.find(c, handle)
	if err != nil {
		return err
	}
	if err := i.checkState(stepResolve); err != nil {
		return err
	}
	switch {
	case i.state == bound:
		src = i.src
	case src.family == 0:
		src = dst.like()
		src.pkey = dst.pkey
		if dst.family == afINET6 && dst.addr.IsLinkLocalUnicast() {
			src.scope = dst.scope
		}
	}
	if src.family != dst.family {
		return refuse(unix.EINVAL, "RESOLVE_ADDR: the source is of family %d and the destination of family %d", src.family, dst.family)
	}
	if dst.any() { // this host
		to := src.ip()
		if src.any() {
			to = loopback(dst.family)
		}
		dst = dst.with(to)
	}
	from, errno, err := m.source(c, &src, &dst)
	if err != nil {
		return err
	}
	if _, known := c.Program.Network.Local(nameOf(dst.family, from)); !known && errno == 0 {
		if _, err := c.result(Need{Kind: NeedAddresses}); err != nil {
			return err
		}
	}
	if i.state == idle {
		if err := i.bind(c, src); err != nil {
			return err
		}
	}
	if errno != 0 {
		i.explain("address %v cannot be reached from this network namespace: %v", dst.addr, errno)
		i.notifyStatus(addrError, failed(errno))
		return nil
	}
	if !i.attach(from) {
		i.explain("address %v would be reached from %v, and no device has that address", dst.addr, from)
		i.notifyStatus(addrError, failed(unix.ENODEV))
		return nil
	}
	if i.src.any() {
		i.src = i.src.with(from)
	}
	i.dst, i.remote = dst, i.inferRemote(dst.ip())
	if _, to, ok := i.program.Network.Owner(nameOf(dst.family, dst.ip())); ok {
		i.remote = to
	}
	i.state = stepResolve.to
	i.reindex()
	i.notifyStatus(addrResolved, 0)
	return nil
}

// inferRemote returns where an address leads if it has no known owner.
func (i *id) inferRemote(to netip.Addr) PortAddress {
	switch {
	case !i.local.infiniband():
		return PortAddress{GID: gidOf(to)}
	case to.IsMulticast():
		g := ipoib(to)
		return PortAddress{g, mlid(g)}
	}
	return PortAddress{}
}

// source returns the address from which a destination is reached. An address of the host
// itself is reached from the same address; for others, the program's process queries its
// kernel.
func (m *Manager) source(c *Call, src, dst *sockaddr) (from netip.Addr, errno unix.Errno, err error) {
	to := dst.ip()
	_, own := c.Program.Network.Local(nameOf(dst.family, to))
	switch {
	case !src.any() && (own || to.IsLoopback() || to.IsMulticast()):
		return src.ip(), 0, nil
	case own:
		return to, 0, nil
	case to.IsLoopback():
		return loopback(afINET), 0, nil
	}
	question := make([]byte, RouteSize)
	if !src.any() {
		plain(src, src.ip()).put(question)
	}
	plain(dst, to).put(question[addressRoom:])
	r, err := c.result(Need{Kind: NeedRoute, Bytes: question})
	if err != nil || r.Errno != 0 {
		return from, r.Errno, err
	}
	answer := parseSockaddr(r.Bytes)
	if !answer.addr.IsValid() {
		return from, 0, refuse(unix.EINVAL, "RESOLVE_ADDR: the answer about the route is of family %d", answer.family)
	}
	return answer.ip(), 0, nil
}

// findPath finds the path to a port elsewhere, and reports whether there is one.
func (i *id) findPath(to PortAddress) (ok bool) {
	if i.held == nil {
		i.held = i.hold(i.self(), to)
	}
	path, err := i.pathTo(i.self(), to)
	if err != nil {
		i.explain("address %v: no link leads there: %v", i.dst.addr, err)
		return false
	}
	i.path = path
	return true
}

// plain returns the IP address, as a socket address of its own family.
func plain(of *sockaddr, ip netip.Addr) *sockaddr {
	a := &sockaddr{family: afINET6, addr: ip}
	if ip.Is4() {
		a.family = afINET
	}
	if of.family == afINET6 {
		a.scope = of.scope
	}
	a.port = of.number()
	if (a.family == of.family && a.port == 0) || of.family == afIB {
		a.port = 1 // connect() of a socket wants some port
	}
	return a
}

// resolveRoute serves RESOLVE_ROUTE. There is one path to every port. Only that to a port elsewhere
// is looked up.
func (m *Manager) resolveRoute(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req[abi.CMResolveRouteID:]))
	if err != nil {
		return err
	}
	if err := i.checkState(stepRoute); err != nil {
		return err
	}
	if space, to, ok := i.program.Network.Owner(nameOf(i.dst.family, i.dst.ip())); ok && space == Elsewhere {
		if !i.findPath(to) {
			i.notifyStatus(routeError, failed(unix.EHOSTUNREACH))
			return nil
		}
	}
	i.state = stepRoute.to
	i.notifyStatus(routeResolved, 0)
	return nil
}
