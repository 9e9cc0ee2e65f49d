//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// bind serves BIND. The request is struct rdma_ucm_bind.
func (m *Manager) bind(c *Call, req []byte) error {
	a := parseSockaddr(req[abi.CMBindAddr:])
	size := int(le.Uint16(req[abi.CMBindAddrSize:]))
	if le.Uint16(req[abi.CMBindReserved:]) != 0 || size == 0 || size != a.size() {
		return refuse(unix.EINVAL, "BIND: an address of family %d with %d bytes", a.family, size)
	}
	i, err := m.find(c, le.Uint32(req[abi.CMBindID:]))
	if err != nil {
		return err
	}
	return i.bind(c, a)
}

// bindIP serves BIND_IP, which is older. The request is struct rdma_ucm_bind_ip.
func (m *Manager) bindIP(c *Call, req []byte) error {
	a := parseSockaddr(req[abi.CMBindIPAddr:][:unix.SizeofSockaddrInet6])
	if !a.addr.IsValid() {
		return refuse(unix.EINVAL, "BIND_IP: an address of family %d", a.family)
	}
	i, err := m.find(c, le.Uint32(req[abi.CMBindIPID:]))
	if err != nil {
		return err
	}
	return i.bind(c, a)
}

// bind gives an id a source address and a port.
func (i *id) bind(c *Call, a sockaddr) error {
	if err := i.checkState(stepBind); err != nil {
		return err
	}
	if a.family == afINET6 && a.addr.IsLinkLocalUnicast() && a.scope == 0 {
		return refuse(unix.EINVAL, "address %v: it is valid on one link only, so sin6_scope_id has to name the interface", a.addr)
	}
	old := *i
	i.src = a
	if !a.any() && !i.attach(a.ip()) {
		*i = old
		if _, err := c.result(Need{Kind: NeedAddresses}); err != nil {
			return err
		}
		return refuse(unix.EADDRNOTAVAIL, "address %v: no interface of this network namespace has it", a.addr)
	}
	if !i.onlySet {
		i.only = a.family == afINET
	}
	if err := i.takePort(c.Program); err != nil {
		*i = old
		return err
	}
	i.dst = a.like()
	i.state = bound
	i.reindex()
	return nil
}

// attach finds the device that has an address, and reports whether there is one.
func (i *id) attach(ip netip.Addr) bool {
	return i.attachTo(nameOf(i.src.family, ip))
}

func (i *id) attachTo(a Name) bool {
	if i.src.family == afINET6 {
		a.Scope = uint32(i.src.scope)
	}
	e, ok := i.program.Network.Local(a)
	if !ok && a.IP.IsLoopback() { // the other addresses of 127.0.0.0/8
		e, ok = i.program.Network.Local(nameOf(afINET, loopback(afINET)))
	}
	if ok {
		i.local, i.attached = e, true
	}
	return ok
}
