//go:build linux && (amd64 || arm64)

package netdev

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nicless/nicless"
)

// MaxPeers is how many other interfaces an interface knows: a rack of 1024 nodes with one each. A peer
// without a session costs about 1 KiB.
const MaxPeers = 1024

// Clients can change their announcements all the time. So looks at the announcements are at least lookPause
// apart, and together take at most one part in lookShare of the time: packets are taken in the rest.
const (
	lookPause = 2 * time.Millisecond
	lookShare = 10
)

// An id names the client behind an announcement.
type id struct {
	device uint64
	client uint32
}

// A boxID names the client that dials, or is dialled.
type boxID struct{ device, box uint64 }

// An ignored announcement is of no peer. It is looked at again when addresses become free.
type ignored struct {
	nicless.Announcement
	why string
}

// routes map addresses to peers. They are replaced, never changed.
type routes struct {
	all       []*peer // by address
	byAddress map[netip.Addr]*peer
}

// news makes the goroutine that receives look at the announcements soon.
func (in *Interface) news() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.lookDue {
		in.lookDue = true
		time.AfterFunc(time.Until(in.nextLook), in.lookNow)
	}
}

// lookNow makes the goroutine that receives look at the announcements now.
func (in *Interface) lookNow() {
	in.board.Store(true)
	in.again()
}

// beginLook notes that a look begins. The look sees all that has been announced so far.
func (in *Interface) beginLook() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.lookDue, in.nextLook = false, time.Now().Add(max(lookPause, in.lookShare*in.lookTook))
}

// look looks at what is announced, if that has changed, and takes the next step of all sessions.
func (in *Interface) look() error {
	if in.board.Swap(false) {
		in.beginLook()
		begin := time.Now()
		if err := in.readBoard(); err != nil {
			return err
		}
		in.lookTook = time.Since(begin)
	}
	if err := in.stepAll(in.now()); err != nil {
		return err
	}
	return in.announce()
}

// readBoard updates the peers from the announcements that have changed.
func (in *Interface) readBoard() error {
	changed, err := in.changes()
	if err != nil {
		return fmt.Errorf("announcements: %w", err)
	}
	own := in.addresses()
	freed := !slices.Equal(own, in.checkedFor) // whether addresses that were taken may be free now
	in.checkedFor = own
	in.kept = make(kept)
	again := make(map[id]bool) // peers with a session that have other addresses: this side dials them
	// Peers that are gone are dropped first: the same interface may be back as another client, with the same
	// addresses.
	for _, a := range changed {
		at := id{a.Device, a.Client}
		p := in.peers[at]
		if p == nil {
			if len(a.Value) == 0 {
				delete(in.ignored, at)
			}
			continue
		}
		found, err := parseAnnouncement(a.Value)
		why := "it has begun anew"
		switch {
		case len(a.Value) == 0:
			why = "it is gone"
		case err != nil:
			why = "it announces what is refused"
		case p.announced.same(&found) && a.Box == p.at.Box:
			continue
		case p.phase == open:
			again[at] = true
		}
		if err == nil && len(a.Value) > 0 {
			in.kept.add(p, &found)
		}
		if err := in.drop(at, p, why); err != nil {
			return err
		}
		freed = true
	}
	for _, a := range changed {
		if len(a.Value) == 0 {
			continue
		}
		if found, err := parseAnnouncement(a.Value); err == nil {
			if err := in.clash(&found, a.Device); err != nil {
				return err
			}
		}
		in.takeAnnouncement(a)
	}
	in.kept = nil
	if freed {
		for _, i := range in.ignored {
			in.takeAnnouncement(i.Announcement)
		}
	}
	for at := range again {
		if p := in.peers[at]; p != nil {
			p.want()
		}
	}
	in.rebuild()
	return nil
}

// takeAnnouncement updates the peers from one announcement, which is new or of no peer yet.
func (in *Interface) takeAnnouncement(a nicless.Announcement) {
	at := id{a.Device, a.Client}
	if in.peers[at] != nil {
		return // it has not changed
	}
	found, err := parseAnnouncement(a.Value)
	if err == nil && len(in.peers) == in.maxPeers {
		err = fmt.Errorf("there are %d peers already", in.maxPeers)
	}
	if err == nil {
		err = in.checkPeer(&found, at, boxID{a.Device, a.Box})
	}
	if errors.Is(err, errNotOurs) {
		delete(in.ignored, at)
		return
	}
	if err != nil {
		if in.ignored[at].why != err.Error() {
			in.log.Warn("interface ignored", "engine", engine(a.Device), "name", found.name,
				"why", err.Error())
		}
		if len(in.ignored) < 4*MaxPeers || in.ignored[at].why != "" { // more are not remembered
			in.ignored[at] = ignored{a, err.Error()}
		}
		return
	}
	delete(in.ignored, at)
	p := newPeer(in, found, a)
	in.peers[at], in.byBox[boxID{a.Device, a.Box}], in.byLife[found.life] = p, p, p
	for _, ip := range found.addresses {
		in.taken[ip] = p
	}
	in.log.Info("peer found", "peer", p)
	in.warnOfHost(&found)
	if found.mtu != in.cfg.MTU {
		in.log.Warn("a peer has another MTU; senders of longer packets are answered by ICMP errors",
			"name", found.name, "its", found.mtu, "own", in.cfg.MTU)
	}
}

// checkPeer returns why an interface cannot be a peer.
func (in *Interface) checkPeer(found *announcement, at id, box boxID) error {
	if err := in.kept.check(found, at); err != nil {
		return err
	}
	switch {
	case found.claim == bid:
		return errNotOurs // it is none yet
	case len(found.addresses) == 0:
		return errors.New("it has no address")
	case found.life == in.life:
		return errors.New("it says that it is in the life of this interface")
	case box.box == 0:
		return errors.New("it cannot be dialled: it listens under no name")
	case in.byBox[box] != nil:
		return fmt.Errorf("it says that it has the box of interface %s", in.byBox[box].announced.name)
	case in.byLife[found.life] != nil:
		return fmt.Errorf("it says that it is in the life of interface %s", in.byLife[found.life].announced.name)
	}
	for i, ip := range found.addresses {
		switch {
		case !possible(ip):
			return fmt.Errorf("it says that it has %v, which no interface can have", ip)
		case slices.Contains(found.addresses[:i], ip):
			return fmt.Errorf("it says that it has %v twice", ip)
		case slices.Contains(in.addresses(), ip):
			return fmt.Errorf("it says that it has %v, an address of this interface", ip)
		case in.taken[ip] != nil:
			return fmt.Errorf("it says that it has %v, which interface %s had before it", ip, in.taken[ip].announced.name)
		}
	}
	return nil
}

// drop ends a peer.
func (in *Interface) drop(at id, p *peer, why string) error {
	delete(in.peers, at)
	delete(in.byBox, boxID{p.at.Device, p.at.Box})
	delete(in.byLife, p.announced.life)
	for _, ip := range p.announced.addresses {
		delete(in.taken, ip)
	}
	delete(in.active, p)
	p.leave()
	return p.end(why)
}

// rebuild makes the routes.
func (in *Interface) rebuild() {
	r := &routes{byAddress: make(map[netip.Addr]*peer, len(in.taken))}
	for _, p := range in.peers {
		r.all = append(r.all, p)
	}
	for ip, p := range in.taken {
		r.byAddress[ip] = p
	}
	slices.SortFunc(r.all, func(x, y *peer) int {
		return x.announced.addresses[0].Compare(y.announced.addresses[0])
	})
	in.routes.Store(r)
}
