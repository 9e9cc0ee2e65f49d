//go:build linux && (amd64 || arm64)

package roce

import (
	"net/netip"
	"time"
)

// peersChanged makes maintain give the kernel new programs. It does not wait.
func (c *Carrier) peersChanged() {
	select {
	case c.peers <- struct{}{}:
	default:
	}
}

// startScreen gives the kernel the first program for a local address. If the kernel does not choose among the
// sockets of a group, the address has one socket only, with a filter if the kernel takes filters. The caller
// holds c.screening.mu.
func (c *Carrier) startScreen(l *local) {
	if c.cfg.unscreened {
		l.leaveGroup()
		return
	}
	k := c.knownTo(l)
	k.incomplete = k.incomplete || c.screening.open
	err := l.applyScreen(c.cfg.Allowed, k)
	if err != nil && l.group.strangers >= 0 {
		c.log.Info("strangers share the buffer of peers: the kernel does not choose sockets", "address", l.addr.String(), "error", err.Error())
		l.leaveGroup()
		err = l.applyScreen(c.cfg.Allowed, addressSet{})
	}
	l.group.screened = err == nil
	if err != nil {
		c.log.Info("the kernel takes no filter; every datagram is judged by the carrier", "address", l.addr.String(), "error", err.Error())
	}
}

// screenNow gives the kernel new programs if it needs them.
func (c *Carrier) screenNow(now time.Time) {
	s := &c.screening
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.decide(c.paths.newcomers.Load(), now) {
		c.screenAll()
	}
}

// screenAll gives the kernel new programs for all local addresses that have a socket for strangers. The
// caller holds c.screening.mu.
func (c *Carrier) screenAll() {
	for _, l := range *c.locals.Load() {
		if l.group.strangers < 0 {
			continue
		}
		k := c.knownTo(l)
		k.incomplete = k.incomplete || c.screening.open
		for l.applyScreen(c.cfg.Allowed, k) != nil && len(k.words) > 0 {
			// net.core.optmem_max is small. Addresses that are left out are served as strangers.
			k.words, k.incomplete = k.words[:len(k.words)/2], true
		}
	}
}

// knownTo returns the addresses that are known to a local address: those to which this engine has requested a
// path from it. If there are too many, addresses whose paths are not held now are left out.
func (c *Carrier) knownTo(l *local) addressSet {
	var held, unheld []netip.Addr
	c.paths.each(func(p *path) {
		switch {
		case p.from != l || p.origin != wanted || p.source != p:
		case p.refs > 0:
			held = append(held, p.remote)
		default:
			unheld = append(unheld, p.remote)
		}
	})
	if len(held)+len(unheld) <= maxKnown {
		held, unheld = append(held, unheld...), nil
	}
	k := newAddressSet(held, l.plain.Is6(), c.secret)
	k.incomplete = k.incomplete || len(unheld) > 0
	return k
}

// watch makes datagrams of a local address wake the receiver. The waiter reports the number of the local
// address, with strangersBit for the strangers' socket.
func (c *Carrier) watch(l *local) error {
	err := c.receiveWaiter.watch(l.receiver, l.number)
	if err == nil && l.group.strangers >= 0 {
		err = c.receiveWaiter.watch(l.group.strangers, l.number|strangersBit)
	}
	return err
}

const strangersBit = 1 << 31

// countDropped counts what the kernel has dropped.
func (c *Carrier) countDropped() {
	for _, l := range *c.locals.Load() {
		l.countDropped(&c.receiver.counts)
	}
}
