//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"time"
)

const (
	// lookEvery is how often the network devices are looked at, besides after notifications of the kernel
	// (changes.go).
	lookEvery = time.Second

	// dropMTUsEvery is how often the MTUs that sending has taught are dropped, as the kernel
	// drops them after 10 minutes (net.ipv4.route.mtu_expires).
	dropMTUsEvery = 10 * time.Minute

	// trimEvery is after how many looks at the network devices the engine gives back memory that it has not
	// used for a while.
	trimEvery = 10
)

// maintain is a goroutine. It notices that network devices or addresses have gone or come back, and that MTUs
// have changed, and tells the engine whether the link is up. It gives the kernel new programs (screenNow).
func (c *Carrier) maintain() {
	defer c.done.Done()
	ticker := time.NewTicker(c.cfg.lookEvery)
	defer ticker.Stop()
	dropMTUs := time.NewTicker(dropMTUsEvery)
	defer dropMTUs.Stop()
	var screenDue <-chan time.Time // when the kernel may need new programs although nothing happens
	var floods floodWatch
	var neighbours neighbourWatch
	for looks := 0; ; {
		select {
		case <-c.stop:
			return
		case <-c.peers:
			screenDue = c.screenAgain(screenDue)
			continue
		case <-screenDue:
			screenDue = c.screenAgain(nil)
			continue
		case <-c.changed:
		case <-c.moved:
			for _, l := range *c.locals.Load() {
				if l.here {
					c.lookAgain(l)
				}
				l.probe(c)
			}
		case <-dropMTUs.C:
			c.paths.each(func(p *path) { p.mtu.Store(0) })
		case <-ticker.C:
			for _, l := range *c.locals.Load() {
				if l.here {
					c.look(l)
				}
				l.probe(c)
			}
			neighbours.look(c, time.Now(), (*neighbourTable).full)
			floods.look(c, time.Now(), c.droppedSoFar(), c.receiver.limits.sources.take)
			looks++
			if looks%trimEvery == 0 {
				c.trim()
			}
		}
		c.mu.Lock()
		if !c.closed {
			c.updateUp()
		}
		c.mu.Unlock()
	}
}

// trim lets the engine give back memory of the port.
func (c *Carrier) trim() {
	if port := c.port(); port != nil {
		port.Trim()
	}
}

// screenAgain gives the kernel new programs if it needs them, and returns when it has to be called again; due
// says when that was to be until now, and is nil if it was not.
func (c *Carrier) screenAgain(due <-chan time.Time) <-chan time.Time {
	now := time.Now()
	c.screenNow(now)
	if wait := c.screening.wait(now); wait > 0 && due == nil {
		return time.After(wait)
	}
	return due
}

// upChanged makes maintain look at the state of the link.
func (c *Carrier) upChanged() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// look finds out whether the network device still has a local address.
func (c *Carrier) look(l *local) {
	d, err := deviceOf(l.addr)
	reason := ""
	switch {
	case err != nil:
		reason = fmt.Sprintf("no network device has the address %v any more", l.addr)
	case !d.up:
		reason = "network device " + d.name + " is down"
	}
	was := l.lost.Load()
	switch {
	case reason != "" && was == nil:
		l.lost.Store(&lost{reason: reason, since: time.Now()})
		c.log.Warn("local address does not work", "address", l.addr.String(), "reason", reason)
	case reason == "" && was != nil:
		l.tryAgain(c)
		l.lost.Store(nil)
		c.log.Info("local address works again", "address", l.addr.String())
	}
	if err != nil {
		c.reopen(l)
		return
	}
	if d.mtu != int(l.deviceMTU.Load()) {
		l.setDevice(d.name, d.mtu)
		c.log.Info("MTU has changed", "address", l.addr.String(), "device", d.name, "device MTU", d.mtu,
			"mtu", l.mtu.Load())
	}
}

// reopen opens new sockets for a link-local address whose network device was made again: the
// sockets are bound to the index of the old device. Paths from the address end.
func (c *Carrier) reopen(l *local) {
	name := *l.device.Load()
	if l.scope == 0 || name == "" {
		return
	}
	a := l.plain.WithZone(name)
	if _, err := deviceOf(a); err != nil {
		return
	}
	s, err := OpenSockets(a, c.cfg.SourcePorts)
	if err != nil {
		return // tried again at the next look
	}
	s.here = true
	if c.RemoveAddress(l.addr) != nil || c.AddSockets(s) != nil {
		s.Close()
	}
}
