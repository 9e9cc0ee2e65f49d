//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nicless/nicless"
)

// bidTime is how long nobody has to keep an address before an interface that picks has it. A pool spreads
// announcements within 20 ms, and those of a new node within 200 ms. If it takes longer, both interfaces have
// the address, and one of them gives way later.
const bidTime = 500 * time.Millisecond

// mostPicks is after how many others Pick tries no more addresses: more than interfaces begin at once on an
// engine, whose seeds can be the same. Somebody who announces each address that is tried is stopped by it.
const mostPicks = 256

// commonPicks is after how many others an interface goes on from a place by chance. Before, those with one
// seed try the same addresses one after another; a thousand at once would be too many for that.
const commonPicks = 16

// Picks says from which networks an interface picks its addresses.
type Picks struct {
	// Prefixes are those of the networks: 1 to MaxAddresses, of which none overlaps another. An address of
	// each is picked.
	Prefixes []netip.Prefix

	// Seed decides which address is tried first, and which next. With the same Seed an interface that
	// starts again picks the address that it had, if that is still free.
	Seed string

	// Kept are addresses that are not picked, such as those of a Clash: a link that comes up later than
	// within half a second does not show yet that another interface has them.
	Kept []netip.Addr

	Name     string // as in Config
	AllUsers bool   // as in Config
}

// Picked are addresses that an interface has picked.
type Picked struct {
	// Addresses has one of each prefix, in their order, with the prefix's length.
	Addresses []netip.Prefix

	life uint64
}

// Pick picks addresses that no interface of the fabric has. It announces those that it tries, and takes
// others when an interface that comes before this one has them: one that has them already, or one that tries
// them, too, and has the lower life, which is a random number. It takes half a second if nothing changes.
// The Context must not have announced anything; the next call with it is Open with these addresses, or Close.
func Pick(ctx context.Context, c *nicless.Context, p Picks) (*Picked, error) {
	return pick(ctx, c, p, time.Now)
}

// pick is Pick with a clock.
func pick(ctx context.Context, c *nicless.Context, p Picks, now func() time.Time) (*Picked, error) {
	b, err := newBidder(p, newLife())
	if err != nil {
		return nil, err
	}
	announce := c.Announce
	if p.AllUsers {
		announce = c.AnnounceToAll
	}
	var end time.Time
	for tries := 0; tries <= mostPicks; {
		// Before the look: a process that had no core until then has not seen what others have announced.
		over := tries > 0 && !now().Before(end)
		changed, err := b.look(c)
		if err != nil {
			return nil, err
		}
		switch {
		case changed || tries == 0:
			tries++
			if err := announce(b.announcement().put(nil)); err != nil {
				return nil, fmt.Errorf("netdev: announce: %w", err)
			}
			end = now().Add(bidTime)
		case over:
			return b.picked(), nil
		}
		wait, cancel := context.WithTimeout(ctx, end.Sub(now()))
		_, err = c.NextEvent(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return nil, fmt.Errorf("netdev: pick an address: %w", err)
		}
	}
	return nil, fmt.Errorf("netdev: other interfaces keep all of %d addresses that were tried; give an address", mostPicks)
}

// A bidder tries addresses. It knows nothing of time.
type bidder struct {
	Picks
	life      uint64
	addresses []netip.Addr // that are tried now, one of each prefix
	lost      int          // how often it gave way
}

func newBidder(p Picks, life uint64) (*bidder, error) {
	if n := len(p.Prefixes); n == 0 || n > MaxAddresses {
		return nil, fmt.Errorf("netdev: %d prefixes; 1 to %d are possible", n, MaxAddresses)
	}
	b := &bidder{Picks: p, life: life}
	for i, prefix := range p.Prefixes {
		if err := CheckPrefix(prefix); err != nil {
			return nil, err
		}
		for _, other := range p.Prefixes[:i] {
			if other.Overlaps(prefix) {
				return nil, fmt.Errorf("netdev: prefixes %v and %v overlap", other, prefix)
			}
		}
		b.addresses = append(b.addresses, candidate(prefix, p.Seed, 0))
	}
	return b, nil
}

// CheckPrefix returns an error if addresses cannot be picked from a network.
func CheckPrefix(p netip.Prefix) error {
	switch {
	case !p.IsValid() || p.Addr().Is4In6() || p.Masked() != p:
		return fmt.Errorf("netdev: prefix %v is not a network such as 10.9.0.0/16 or fd00:9::/64", p)
	case hostBits(p) < 2:
		return fmt.Errorf("netdev: prefix %v has no addresses to pick from; at most %d bits are possible", p, p.Addr().BitLen()-2)
	case p.Bits() < 8 || !possible(p.Addr().Next()) || !possible(last(p)):
		return fmt.Errorf("netdev: prefix %v has addresses that no interface can have", p)
	}
	return nil
}

// hostBits is how many bits of an address in the network are the interface's.
func hostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

// room is how many addresses of a network can be picked: all but the first and the last. 2^62 of a network of
// IPv6 are enough.
func room(p netip.Prefix) uint64 { return 1<<min(hostBits(p), 62) - 2 }

// last is the last address of a network, as far as they can be picked.
func last(p netip.Prefix) netip.Addr { return nth(p, room(p)) }

// nth is the address behind the network's first by n.
func nth(p netip.Prefix, n uint64) netip.Addr {
	b := p.Addr().As16()
	be.PutUint64(b[8:], be.Uint64(b[8:])|n)
	return netip.AddrFrom16(b).Unmap()
}

// candidate is the address that is tried after n others. All addresses of a network come once.
func candidate(p netip.Prefix, seed string, n uint64) netip.Addr {
	sum := sha256.Sum256([]byte(p.String() + " " + seed))
	start := binary.BigEndian.Uint64(sum[:])
	return nth(p, 1+(start%room(p)+n)%room(p))
}

func (b *bidder) announcement() *announcement {
	return &announcement{life: b.life, area: -1, name: b.Name, addresses: b.addresses, claim: bid,
		toAll: b.AllUsers}
}

func (b *bidder) picked() *Picked {
	p := &Picked{life: b.life}
	for i, ip := range b.addresses {
		p.Addresses = append(p.Addresses, netip.PrefixFrom(ip, b.Prefixes[i].Bits()))
	}
	return p
}

// look gives way to the interfaces of the fabric.
func (b *bidder) look(c *nicless.Context) (changed bool, err error) {
	list, err := c.Announcements()
	if err != nil {
		return false, fmt.Errorf("netdev: %w", err)
	}
	var others []announcement
	for _, a := range list {
		if found, err := parseAnnouncement(a.Value); err == nil {
			others = append(others, found)
		}
	}
	return b.giveWay(others)
}

// giveWay takes other addresses in place of those which others keep. Those that others have, however firmly,
// are not taken.
func (b *bidder) giveWay(others []announcement) (changed bool, err error) {
	taken := make(map[netip.Addr]bool)
	lost := make(map[netip.Addr]bool)
	own := b.announcement()
	for _, ip := range b.Kept {
		taken[ip], lost[ip] = true, true
	}
	for i := range others {
		for _, ip := range others[i].addresses {
			taken[ip] = true
			if others[i].before(own) {
				lost[ip] = true
			}
		}
	}
	next := slices.Clone(b.addresses)
	for i, p := range b.Prefixes {
		if !lost[next[i]] {
			continue
		}
		seed, n := b.seed(), uint64(0)
		for ; n < room(p) && taken[candidate(p, seed, n)]; n++ {
		}
		if n == room(p) {
			return false, fmt.Errorf("netdev: all %d addresses of %v are taken; choose a larger network", n, p)
		}
		next[i], changed = candidate(p, seed, n), true
	}
	b.addresses = next
	if changed {
		b.lost++
	}
	return changed, nil
}

// seed is Seed at first, and later one that no other interface has.
func (b *bidder) seed() string {
	if b.lost < commonPicks {
		return b.Seed
	}
	return fmt.Sprint(b.Seed, " ", b.life)
}
