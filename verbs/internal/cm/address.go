//go:build linux && (amd64 || arm64)

package cm

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A sockaddr is a struct sockaddr_in, sockaddr_in6 or sockaddr_ib.
type sockaddr struct {
	family uint16
	addr   netip.Addr // AF_INET and AF_INET6: without zone. AF_IB: the GID
	port   uint16     // AF_INET and AF_INET6

	flow  uint32 // sin6_flowinfo, sib_flowinfo
	scope uint64 // sin6_scope_id, sib_scope_id
	pkey  uint16 // the rest is of AF_IB
	sid   uint64
	mask  uint64
}

const (
	afINET  = unix.AF_INET
	afINET6 = unix.AF_INET6
	afIB    = unix.AF_IB
)

// Sizes of the structures.
var sockaddrSizes = map[uint16]int{afINET: 16, afINET6: 28, afIB: 48}

func (a *sockaddr) size() int { return sockaddrSizes[a.family] }

// parseSockaddr parses a structure at the start of b, which has room for the largest one of
// those that it can be. The result of an unknown family has that family only.
func parseSockaddr(b []byte) (a sockaddr) {
	a.family = le.Uint16(b)
	if len(b) < a.size() {
		return sockaddr{family: a.family}
	}
	switch a.family {
	case afINET:
		a.port = be.Uint16(b[2:])
		a.addr = netip.AddrFrom4([4]byte(b[4:]))
	case afINET6:
		a.port, a.flow, a.scope = be.Uint16(b[2:]), be.Uint32(b[4:]), uint64(le.Uint32(b[24:]))
		a.addr = netip.AddrFrom16([16]byte(b[8:]))
	case afIB:
		a.pkey, a.flow = be.Uint16(b[2:]), be.Uint32(b[4:])
		a.addr = netip.AddrFrom16([16]byte(b[8:]))
		a.sid, a.mask, a.scope = be.Uint64(b[24:]), be.Uint64(b[32:]), le.Uint64(b[40:])
	}
	return a
}

// put writes the structure to the start of b.
func (a *sockaddr) put(b []byte) {
	if a.size() == 0 {
		return
	}
	le.PutUint16(b, a.family)
	switch a.family {
	case afINET:
		be.PutUint16(b[2:], a.port)
		v4 := a.addr.As4()
		copy(b[4:], v4[:])
	case afINET6:
		be.PutUint16(b[2:], a.port)
		be.PutUint32(b[4:], a.flow)
		v6 := a.addr.As16()
		copy(b[8:], v6[:])
		le.PutUint32(b[24:], uint32(a.scope))
	case afIB:
		be.PutUint16(b[2:], a.pkey)
		be.PutUint32(b[4:], a.flow)
		gid := a.addr.As16()
		copy(b[8:], gid[:])
		be.PutUint64(b[24:], a.sid)
		be.PutUint64(b[32:], a.mask)
		le.PutUint64(b[40:], a.scope)
	}
}

// any reports whether no particular address is meant.
func (a *sockaddr) any() bool { return !a.addr.IsValid() || a.addr.IsUnspecified() }

// number returns the port. For AF_IB it is the low part of the service number.
func (a *sockaddr) number() uint16 {
	if a.family == afIB {
		return uint16(a.sid & a.mask)
	}
	return a.port
}

// setNumber sets the port.
func (a *sockaddr) setNumber(n uint16) {
	if a.family == afIB {
		a.sid, a.mask = a.sid&a.mask|uint64(n), ^uint64(0)
	} else {
		a.port = n
	}
}

// service returns the number of the service that the address names.
func (a *sockaddr) service(space portSpace) uint64 {
	if a.family == afIB {
		return a.sid
	}
	return uint64(space)<<16 | uint64(a.port)
}

// ip returns the address as the network knows it: a GID that has an IPv4 address in it is
// that address.
func (a *sockaddr) ip() netip.Addr { return a.addr.Unmap() }

// with returns the same address with another IP address, or GID, in it.
func (a sockaddr) with(ip netip.Addr) sockaddr {
	switch a.family {
	case afINET:
		a.addr = ip.Unmap()
	default:
		a.addr = netip.AddrFrom16(ip.As16())
	}
	return a
}

// like returns an address of the same family that names no particular address and no port.
func (a *sockaddr) like() sockaddr {
	if a.family == afINET {
		return sockaddr{family: afINET, addr: netip.IPv4Unspecified()}
	}
	return sockaddr{family: a.family, addr: netip.IPv6Unspecified()}
}

func (a *sockaddr) String() string {
	switch a.family {
	case afIB:
		return fmt.Sprintf("GID %v service %#x", a.addr, a.sid)
	case afINET, afINET6:
		return netip.AddrPortFrom(a.addr, a.port).String()
	}
	return "no address"
}
