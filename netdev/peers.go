//go:build linux && (amd64 || arm64)

package netdev

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless"
)

// Clients can change their announcements all the time. So looks at the announcements are at least lookPause
// apart, and together take at most one part in lookShare of the time: packets are taken in the rest.
const (
	lookPause = 2 * time.Millisecond
	lookShare = 10
)

// news makes the goroutine that receives look at the announcements soon.
func (in *Interface) news() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.lookDue {
		in.lookDue = true
		time.AfterFunc(time.Until(in.nextLook), in.again)
	}
}

// beginLook notes that a look begins. The look sees all that has been announced so far.
func (in *Interface) beginLook() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.lookDue, in.nextLook = false, time.Now().Add(max(lookPause, in.lookShare*in.lookTook))
}

// look looks at what is announced, takes the next step of all sessions, and announces what has
// changed.
func (in *Interface) look() error {
	in.beginLook()
	defer func(begin time.Time) { in.lookTook = time.Since(begin) }(time.Now())
	list, err := in.c.Announcements()
	if err != nil {
		return fmt.Errorf("announcements: %w", err)
	}
	present := make(map[id]bool)
	for _, a := range list {
		present[id{a.Device, a.Client}] = true
	}
	for at, p := range in.peers {
		p.seen = false
		// Peers that are gone are dropped first: the same interface may be back as another client, with the
		// same addresses.
		if !present[at] {
			if err := in.drop(at, p, "it is gone"); err != nil {
				return err
			}
		}
	}
	ignored := make(map[id]string)
	for _, a := range list {
		if err := in.takeAnnouncement(a, ignored); err != nil {
			return err
		}
	}
	in.ignored = ignored
	for at, p := range in.peers {
		if !p.seen {
			if err := in.drop(at, p, "it announces what is refused"); err != nil {
				return err
			}
		}
	}
	for _, p := range in.peers {
		if err := p.step(); err != nil {
			return err
		}
	}
	in.rebuild()
	return in.announce()
}

// takeAnnouncement updates the peers from one announcement.
func (in *Interface) takeAnnouncement(a nicless.Announcement, ignored map[id]string) error {
	at := id{a.Device, a.Client}
	found, err := parseAnnouncement(a.Value)
	p := in.peers[at]
	if err == nil && p != nil && !p.announced.sameLife(&found) {
		if err := in.drop(at, p, "it has begun anew"); err != nil {
			return err
		}
		p = nil
	}
	if err == nil && p == nil && len(in.peers) == MaxPeers {
		err = fmt.Errorf("there are %d peers already", MaxPeers)
	}
	if err == nil && p == nil {
		err = in.checkPeer(&found)
	}
	switch {
	case errors.Is(err, errNotOurs):
		return nil
	case err != nil:
		ignored[at] = err.Error()
		if in.ignored[at] != err.Error() {
			in.log.Warn("interface ignored", "engine", engine(a.Device), "name", found.name,
				"why", err.Error())
		}
		return nil
	case p == nil:
		p = newPeer(in)
		p.device, p.client = a.Device, a.Client
		in.peers[at] = p
		if found.mtu != in.cfg.MTU {
			in.log.Warn("a peer has another MTU; TCP uses the smaller one, and longer datagrams may be lost",
				"name", found.name, "its", found.mtu, "own", in.cfg.MTU)
		}
	}
	p.announced, p.seen = found, true
	return nil
}

// checkPeer returns why an interface cannot be a peer.
func (in *Interface) checkPeer(found *announcement) error {
	if len(found.addresses) == 0 {
		return errors.New("it has no address")
	}
	if found.life == in.life {
		return errors.New("it says that it is in the life of this interface")
	}
	for _, p := range in.peers {
		if p.announced.life == found.life {
			return fmt.Errorf("it says that it is in the life of interface %s", p.announced.name)
		}
	}
	for _, ip := range found.addresses {
		if !possible(ip) {
			return fmt.Errorf("it says that it has %v, which no interface can have", ip)
		}
		if slices.Contains(in.addresses(), ip) {
			return fmt.Errorf("it says that it has %v, an address of this interface", ip)
		}
		for _, p := range in.peers {
			if slices.Contains(p.announced.addresses, ip) {
				return fmt.Errorf("it says that it has %v, which interface %s had before it", ip, p.announced.name)
			}
		}
	}
	return nil
}
