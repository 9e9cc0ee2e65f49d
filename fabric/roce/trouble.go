//go:build linux && (amd64 || arm64)

package roce

import (
	"time"

	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

const (
	// retryAfter is how long packets are dropped on a path, or from a local address, that cannot
	// send. Then a packet is tried again.
	retryAfter = 100 * time.Millisecond

	// maxRefused is how many messages of several datagrams the kernel may refuse from a local
	// address before they are not tried any more.
	maxRefused = 3
)

// An uncut says that the kernel has refused a message of several datagrams, and not yet whether it takes its
// datagrams one by one. If not, the error was not about cutting: the network cannot be reached, for instance.
type uncut struct {
	from  *local // nil: there was no such message
	errno unix.Errno
}

// trouble handles the error of sending the next message. If the message is one datagram, it is dropped. If
// the message has several datagrams, its packets and all later packets of the batch become messages of one
// datagram.
//
// Errors in sending come from this host: from the routing table, the network device or a
// packet filter. A remote address without a listener is not one of them.
func (s *sender) trouble(errno unix.Errno) {
	r := s.runs[s.at]
	p := r.path
	switch {
	case errno == unix.EINTR:
		return
	case r.n > 1:
		s.counts.refused.Add(1)
		s.uncut = uncut{p.from, errno}
		s.single = true
		s.make(r.first)
		return
	}
	s.at++
	s.uncut = uncut{} // single datagrams fail too
	switch {
	case errno == unix.EBADF: // RemoveAddress
		s.counts.noPath.Add(1)
	case errno == unix.EMSGSIZE:
		s.counts.tooLong.Add(1)
		p.shrink(s.c, len(s.packets[r.first].Payload))
	case errno == unix.ENOBUFS, errno == unix.ENOMEM, errno == unix.ECONNREFUSED:
		s.counts.busy.Add(1)
	case ofLocal(errno, p):
		s.counts.noWay.Add(1)
		p.from.fails(s.c, errno, s.now)
	default: // ENETUNREACH, EHOSTUNREACH, EPERM and EACCES of packet filters
		s.counts.noWay.Add(1)
		p.fails(s.c, errno, s.now)
	}
}

// ofLocal reports whether an error of sending on a path is one of the local address, and so of all its paths.
func ofLocal(errno unix.Errno, p *path) bool {
	switch errno {
	case unix.ENETDOWN, unix.ENODEV, unix.ENXIO, unix.EADDRNOTAVAIL:
		return true
	case unix.EINVAL:
		// IPv4, of older kernels: the source address is not this host's any more. IPv6: there is no room for
		// the neighbour (neighbours.go), and those that the kernel knows are reached.
		return p.remote.Is4()
	}
	return false
}

// refused is called when the kernel has taken the datagrams of a message, and would not cut the message. It
// says EIO if the network device computes no checksums, and EINVAL if a datagram is longer than the device's
// MTU.
func (s *sender) refused(l *local, errno unix.Errno) {
	s.uncut = uncut{}
	l.refused++
	if errno == unix.EIO || l.refused == maxRefused {
		l.segment.Store(false)
		s.c.log.Info("the network device does not cut messages; datagrams are sent one by one", "address", l.addr.String(), "error", errno.Error())
	}
}

// closedNow reports whether packets on the path are dropped for now, because sending has
// failed.
func (p *path) closedNow(now time.Time) bool {
	return p.fault.Load().holds(now) || p.from.fault.Load().holds(now)
}

func (f *fault) holds(now time.Time) bool {
	return f != nil && now.Sub(f.since) < time.Duration(f.again.Load())
}

// renew returns the fault after another failure: f, or a new one if f is nil or has another
// reason.
func (f *fault) renew(errno unix.Errno, now time.Time) (_ *fault, isNew bool) {
	isNew = f == nil || f.errno != errno
	if isNew {
		f = &fault{errno: errno, since: now}
	}
	f.again.Store(int64(now.Sub(f.since) + retryAfter))
	return f, isNew
}

// fails notes that the path cannot send.
func (p *path) fails(c *Carrier, errno unix.Errno, now time.Time) {
	f, isNew := p.fault.Load().renew(errno, now)
	if isNew {
		p.fault.Store(f)
		c.log.Warn("cannot send; packets are dropped until it works", "from", p.from.addr.String(), "to", p.remote.String(), "error", f.explain(p))
	}
}

// fails notes that no packet can be sent from the local address.
func (l *local) fails(c *Carrier, errno unix.Errno, now time.Time) {
	f, isNew := l.fault.Load().renew(errno, now)
	if isNew {
		l.fault.Store(f)
		c.log.Warn("cannot send from this address; packets are dropped until it works", "address", l.addr.String(), "error", errno.Error())
		c.upChanged()
	}
}

// tryAgain lets the next packet of each path be tried, because the network device has come back. Without
// this, packets would be dropped for up to retryAfter after the engine has got the event that the link is up.
func (l *local) tryAgain(c *Carrier) {
	l.fault.Load().tryAgain()
	c.paths.each(func(p *path) {
		if p.from == l {
			p.fault.Load().tryAgain()
		}
	})
}

// tryAgain lets the next packet be tried. The fault stays until a packet was sent.
func (f *fault) tryAgain() {
	if f != nil {
		f.again.Store(0)
	}
}

// works notes that a packet was sent.
func (p *path) works(c *Carrier) {
	if p.fault.Load() != nil {
		p.fault.Store(nil)
		c.log.Info("path works again", "from", p.from.addr.String(), "to", p.remote.String())
	}
	if p.from.fault.Load() != nil {
		p.from.fault.Store(nil)
		c.log.Info("local address works again", "address", p.from.addr.String())
		c.upChanged()
	}
}

// shrink notes that a packet with a payload of n bytes is too long for the network on the way.
func (p *path) shrink(c *Carrier, n int) {
	mtu := p.MTU()
	if n > mtu {
		return // of a connection that was made before
	}
	if network := p.networkMTU(); network != 0 {
		mtu = min(mtu, pathMTU(network-p.from.more))
	}
	for mtu > minMTU && mtu >= n {
		mtu /= 2
	}
	p.mtu.Store(int32(mtu))
	c.log.Warn("packets are too long for the network; new connections use the smaller MTU",
		"from", p.from.addr.String(), "to", p.remote.String(), "payload", n, "mtu", mtu)
}

// networkMTU queries the kernel for the MTU that it knows for the path; 0 if it is not known
// because the sockets are in another network namespace.
func (p *path) networkMTU() int {
	l := p.from
	if !l.here {
		return 0
	}
	fd, err := newSocket(p.remote)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	var to unix.Sockaddr
	if p.remote.Is4() {
		to = &unix.SockaddrInet4{Port: packet.Port, Addr: p.remote.As4()}
	} else {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
		to = &unix.SockaddrInet6{Port: packet.Port, Addr: p.remote.As16(), ZoneId: l.scope}
	}
	if unix.Connect(fd, to) != nil {
		return 0
	}
	n, _ := unix.GetsockoptInt(fd, level, option)
	return n
}
