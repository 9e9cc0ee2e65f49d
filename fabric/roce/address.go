//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

// A local is a local address with its sockets.
type local struct {
	number uint32 // of this local address; not used again
	addr   netip.Addr
	plain  netip.Addr // addr without its zone
	scope  uint32     // index of the device of a link-local address; otherwise 0
	here   bool       // a device in this process's network namespace has the address

	use      sync.RWMutex // held for reading during system calls on the sockets
	closed   bool         // guarded by use
	receiver int          // socket for known addresses; without a group, for all addresses
	group    group
	senders  []sendSocket

	more    int  // by how many bytes packets are longer than plain packets: sealedMore with keys
	removed bool // no path from this address may begin; guarded by the table's lock

	device    atomic.Pointer[string] // name of the network device; empty if not known
	deviceMTU atomic.Int32
	mtu       atomic.Int32 // IB MTU
	segment   atomic.Bool  // messages are cut by the kernel (UDP_SEGMENT)
	refused   int          // for the sender: how many messages the kernel would not cut
	join      bool         // the kernel joins datagrams (UDP_GRO)
	buffers   [2]int       // sizes of the buffers for sending and receiving

	fault  atomic.Pointer[fault] // why the sender cannot send from this address
	lost   atomic.Pointer[lost]  // what is wrong with the device
	counts addressCounts
}

// socketFor returns which of the sockets sends to a remote address.
func (l *local) socketFor(remote [16]byte) int { return int(remote[15]^remote[14]) % len(l.senders) }

// A sendSocket is a socket that sends.
type sendSocket struct {
	fd   int
	port uint16
}

// lost says why a local address does not work, and since when.
type lost struct {
	reason string
	since  time.Time
}

// AddAddress opens sockets on an IP address of this host, in the network namespace of the
// process. An IPv6 link-local address needs a zone. An error wraps EADDRINUSE if
// another program has the port 4791 there, and EADDRNOTAVAIL if no network device has the address.
func (c *Carrier) AddAddress(a netip.Addr) error {
	s, err := OpenSockets(a, c.cfg.SourcePorts)
	if err != nil {
		return err
	}
	s.here = true
	return c.AddSockets(s)
}

// AddSockets adds the local address of sockets that OpenSockets has returned, in this process or
// in another. The carrier owns the sockets from then on, also if there is an error.
func (c *Carrier) AddSockets(s *Sockets) error {
	l, err := c.newLocal(s)
	if err != nil {
		s.Close()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.close()
		return errClosed
	}
	all := *c.locals.Load()
	for _, other := range all {
		if other.plain == l.plain && other.scope == l.scope {
			l.close()
			return fmt.Errorf("roce: %v is a local address of the carrier already", l.addr)
		}
	}
	c.numbers++
	l.number = c.numbers
	c.screening.mu.Lock() // new programs are for all local addresses
	defer c.screening.mu.Unlock()
	c.startScreen(l)
	if err := c.watch(l); err != nil {
		l.close()
		return fmt.Errorf("roce: watch a socket: %w", err)
	}
	next := append(slices.Clone(all), l)
	c.locals.Store(&next)
	c.receiveWaiter.wake()
	c.log.Info("local address added", "address", l.addr.String(), "device", *l.device.Load(),
		"mtu", l.mtu.Load(), "segments", l.segment.Load(), "joins", l.join, "receive buffer", l.buffers[1])
	c.updateUp()
	return nil
}

// RemoveAddress closes the sockets of a local address. All paths from it end: packets on them
// are dropped. An address without a zone names the first local address that differs only in that.
func (c *Carrier) RemoveAddress(a netip.Addr) error {
	a = a.Unmap()
	zone, err := zoneOf(a)
	plain := a.WithZone("")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range *c.locals.Load() {
		if l.plain == plain && (a.Zone() == "" || err == nil && l.scope == zone) {
			c.remove(l)
			c.log.Info("local address removed", "address", l.addr.String())
			c.updateUp()
			return nil
		}
	}
	return errNoAddress(a)
}

// remove ends a local address. The caller holds the carrier's lock.
func (c *Carrier) remove(l *local) {
	all := slices.Clone(*c.locals.Load())
	all = slices.DeleteFunc(all, func(other *local) bool { return other == l })
	c.locals.Store(&all)
	c.paths.endAll(l)
	c.receiveWaiter.unwatch(l.receiver)
	if l.group.strangers >= 0 {
		c.receiveWaiter.unwatch(l.group.strangers)
	}
	l.countDropped(&c.receiver.counts)
	l.close()
}

// newLocal checks sockets and sets their options.
func (c *Carrier) newLocal(s *Sockets) (*local, error) {
	bound, err := boundTo(s.Receive)
	if err != nil {
		return nil, err
	}
	if bound.Port() != packet.Port || bound.Addr().IsUnspecified() {
		return nil, fmt.Errorf("roce: socket bound to %v; an address and port %d are needed", bound, packet.Port)
	}
	a := bound.Addr()
	l := &local{addr: a, plain: a.WithZone(""), receiver: s.Receive}
	if c.guard != nil {
		l.more = sealedMore
	}
	l.scope, _ = zoneOf(a)
	l.here = s.here || c.namespace != 0 && namespaceOf(s.Receive) == c.namespace
	l.segment.Store(len(s.Send) > 0 && canSegment(s.Send[0]))
	l.buffers[1], l.join, err = prepareReceive(s.Receive, a.Is6(), bufferWanted)
	if err != nil {
		return nil, fmt.Errorf("roce: socket of %v: %w", a, err)
	}
	for _, fd := range s.Send {
		from, err := boundTo(fd)
		if err != nil {
			return nil, err
		}
		if from.Addr() != a {
			return nil, fmt.Errorf("roce: a socket of %v is bound to %v", a, from.Addr())
		}
		l.buffers[0], err = prepareSend(fd, a.Is6())
		if err != nil {
			return nil, fmt.Errorf("roce: socket of %v: %w", a, err)
		}
		l.senders = append(l.senders, sendSocket{fd, from.Port()})
	}
	if len(l.senders) == 0 {
		return nil, fmt.Errorf("roce: no socket to send from %v", a)
	}
	if err := l.findMTU(s); err != nil {
		return nil, err
	}
	l.joinGroup(s.Group)
	s.Group = nil // l closes them
	return l, nil
}

// findMTU finds out the MTU of the network device.
func (l *local) findMTU(s *Sockets) error {
	mtu, name := s.MTU, s.Device
	if mtu == 0 && l.here {
		if d, err := deviceOf(l.addr); err == nil {
			mtu, name = d.mtu, d.name
		} else {
			// The address is local by a route, so no device can lose it.
			l.here = false
		}
	}
	if mtu == 0 {
		var err error
		if mtu, err = smallestMTU(l.receiver); err != nil {
			return err
		}
	}
	l.setDevice(name, mtu)
	return nil
}

func (l *local) setDevice(name string, mtu int) {
	l.device.Store(&name)
	l.deviceMTU.Store(int32(mtu))
	l.mtu.Store(int32(pathMTU(mtu - l.more)))
}

// close closes the sockets. The loops use them only while they hold use.
func (l *local) close() {
	l.use.Lock()
	defer l.use.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	_ = unix.Close(l.receiver)
	l.leaveGroup()
	for _, s := range l.senders {
		_ = unix.Close(s.fd)
	}
}

// up reports whether packets can be sent from the address, as far as is known.
func (l *local) up() bool { return l.fault.Load() == nil && l.lost.Load() == nil }
