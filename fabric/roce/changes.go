//go:build linux && (amd64 || arm64)

package roce

import (
	"net/netip"
	"time"

	"github.com/nicless/nicless/internal/mmsg"
	"github.com/vishvananda/netlink"
)

// The kernel notifies the carrier of changes of addresses and network devices, in the network namespace of
// the process. Without notifications, lookEvery alone decides when a change is seen. A queue pair survives an
// outage of about two seconds (timeout 14, retry_cnt 7), so a second after the outage would be half of that.

const (
	// subscribeAgain is how long watchChanges waits before it subscribes again when the kernel has ended a
	// subscription, as it does if changes come faster than they are read.
	subscribeAgain = 100 * time.Millisecond

	// mostUpdates is how many notifications of each kind wait. It is more than a device with some addresses
	// causes at once.
	mostUpdates = 64
)

// watchChanges is a goroutine. It makes maintain look at the network devices when a change concerns a local
// address, until Close.
func (c *Carrier) watchChanges() {
	defer c.done.Done()
	if c.cfg.deaf {
		return
	}
	for {
		c.followChanges()
		select {
		case <-c.stop:
			return
		case <-time.After(subscribeAgain):
		}
	}
}

// followChanges subscribes to the notifications and reads them, until Close or until the kernel ends a
// subscription.
func (c *Carrier) followChanges() {
	done := make(chan struct{})
	addresses := make(chan netlink.AddrUpdate, mostUpdates)
	if netlink.AddrSubscribe(addresses, done) != nil {
		close(done)
		return
	}
	defer func() {
		close(done)
		for range addresses { // until the subscription has ended: it waits while the channel is full
		}
	}()
	devices := make(chan netlink.LinkUpdate, mostUpdates)
	if netlink.LinkSubscribe(devices, done) != nil {
		return
	}
	go func() {
		<-done
		for range devices {
		}
	}()
	c.lookSoon() // at what has changed before
	for {
		select {
		case <-c.stop:
			return
		case u, open := <-addresses:
			if !open {
				return
			}
			if a, ok := netip.AddrFromSlice(u.LinkAddress.IP); ok && c.hasLocal(a.Unmap(), "") {
				c.lookSoon()
			}
		case u, open := <-devices:
			if !open {
				return
			}
			if c.hasLocal(netip.Addr{}, u.Attrs().Name) {
				c.lookSoon()
			}
		}
	}
}

// hasLocal reports whether a local address of this process's network namespace is a, or is of a device.
func (c *Carrier) hasLocal(a netip.Addr, device string) bool {
	for _, l := range *c.locals.Load() {
		if l.here && (l.plain == a || (device != "" && *l.device.Load() == device)) {
			return true
		}
	}
	return false
}

// lookSoon makes maintain look at the network devices. It does not wait.
func (c *Carrier) lookSoon() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// lookAgain looks at a local address after a change, and lets packets be tried at once: the address may have
// been away, and back before the look.
func (c *Carrier) lookAgain(l *local) {
	c.look(l)
	if l.lost.Load() == nil {
		l.tryAgain(c)
	}
}

// probe finds out whether an address that could not send can send again, by an empty datagram to a peer,
// which is no packet. While the link is down, the engine sends nothing that would show it.
func (l *local) probe(c *Carrier) {
	f := l.fault.Load()
	if f == nil || l.lost.Load() != nil {
		return
	}
	var to *path
	c.paths.each(func(p *path) {
		if p.from == l && p.origin == wanted && p.fault.Load() == nil {
			to = p
		}
	})
	if to != nil {
		var empty mmsg.Message
		empty.Header.Name, empty.Header.Namelen = &to.name[0], to.nameLen
		if _, errno := l.send(to.socket, []mmsg.Message{empty}); ofLocal(errno, to) {
			return
		}
	}
	if l.fault.CompareAndSwap(f, nil) {
		c.log.Info("local address works again", "address", l.addr.String())
	}
}
