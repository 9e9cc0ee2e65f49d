//go:build linux && (amd64 || arm64)

package cm

import (
	"math/rand/v2"
	"net/netip"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// Ports: each network namespace has one set of ports for each port space. They have nothing to
// do with the ports of TCP. The rules are those of cma_check_port and cma_port_is_unique in
// drivers/infiniband/core/cma.c.

// A portKey names a port.
type portKey struct {
	namespace Namespace
	space     portSpace
	port      uint16
}

// Ports for programs that request any, and the first port that needs no privilege.
const (
	firstPort    = 32768
	lastPort     = 60999
	unprivileged = 1024
	spaceMask    = 0xffffffffffff0000 // the part of a service number that names the port space
	serviceOfIB  = uint64(abi.CMPSIB) << 16
	serviceOfTCP = uint64(abi.CMPSTCP) << 16
	serviceOfUDP = uint64(abi.CMPSUDP) << 16
)

// takePort gives the id the port of its source address, or any port if that has none.
func (i *id) takePort(p *Program) error {
	space, err := i.selectSpace()
	if err != nil {
		return err
	}
	n := i.src.number()
	if n == 0 {
		return i.takeAnyPort(space)
	}
	if n < unprivileged && !p.LowPorts() {
		return refuse(unix.EACCES, "port %d: ports below %d need the capability CAP_NET_BIND_SERVICE", n, unprivileged)
	}
	key := portKey{i.program.Namespace, space, n}
	if err := i.mayTake(key, i.reuse); err != nil {
		return err
	}
	i.holdPort(key)
	return nil
}

// selectSpace returns the port space of the id. The service number of an AF_IB address can
// name another one than that of the id.
func (i *id) selectSpace() (portSpace, error) {
	if i.src.family != afIB {
		return i.space, nil
	}
	mask := i.src.mask & spaceMask
	sid := i.src.sid & mask
	for _, s := range []struct {
		of    portSpace
		first uint64
	}{{abi.CMPSIB, serviceOfIB}, {abi.CMPSTCP, serviceOfTCP}, {abi.CMPSUDP, serviceOfUDP}} {
		if (i.space == abi.CMPSIB || i.space == s.of) && sid == s.first&mask {
			i.src.sid = s.first | uint64(i.src.number())
			i.src.mask |= spaceMask
			return s.of, nil
		}
	}
	return 0, refuse(unix.EPROTONOSUPPORT, "service %#x with mask %#x is in none of the port spaces of id %d", i.src.sid, i.src.mask, i.handle)
}

// mayTake returns an error if others have the port. Ids of a channel that no program has any more
// are destroyed first: a program that has ended leaves its ports to the next one at once.
func (i *id) mayTake(key portKey, reuse bool) error {
	for {
		other, errno := i.rival(i.m.ports[key], reuse)
		switch {
		case other == nil:
			return nil
		case other.channel != i.channel && other.channel.tokens.Gone():
			i.m.closeChannel(other.channel)
		case errno == unix.EADDRINUSE:
			return refuse(errno, "port %d: id %d has it at the same address", key.port, other.handle)
		default:
			return refuse(errno, "port %d: id %d has it, at %v", key.port, other.handle, &other.src)
		}
	}
}

// rival returns an id because of which i cannot have a port, and the errno; nil if there is none.
func (i *id) rival(u *portUse, reuse bool) (*id, unix.Errno) {
	if u == nil {
		return nil, 0
	}
	against := func(c class) bool {
		return !(c.state != listening && reuse && c.reuse) && !(i.only && c.only && i.src.family != c.family)
	}
	another := func(o *id) bool { return o != i }
	if i.src.any() {
		return u.all.first(against, another), unix.EADDRNOTAVAIL
	}
	if o := u.addr[netip.Addr{}].first(against, another); o != nil {
		return o, unix.EADDRNOTAVAIL
	}
	return u.addr[i.src.addr].first(against, another), unix.EADDRINUSE
}

// takeAnyPort takes a port at random, but not the one that was taken last.
func (i *id) takeAnyPort(space portSpace) error {
	const all = lastPort - firstPort + 1
	start := rand.IntN(all)
	for n := range all {
		key := portKey{i.program.Namespace, space, uint16(firstPort + (start+n)%all)}
		if key.port != i.m.lastPort && i.unique(key) {
			i.m.lastPort = key.port
			i.holdPort(key)
			i.src.setNumber(key.port)
			return nil
		}
	}
	return refuse(unix.EADDRNOTAVAIL, "all %d ports of port space %#x are taken", all, uint16(space))
}

// unique reports whether a connection from a port would be like no other one.
func (i *id) unique(key portKey) bool {
	u := i.m.ports[key]
	return u == nil || nil == u.all.first(func(class) bool { return true }, func(other *id) bool {
		return (other.dst.number() == 0 || other.dst.number() == i.dst.number()) &&
			(i.src.any() || other.src.any() || i.src.addr == other.src.addr) &&
			(other.dst.any() || i.dst.addr == other.dst.addr)
	})
}
