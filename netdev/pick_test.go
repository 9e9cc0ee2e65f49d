//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nicless/nicless"
)

func prefixes(list ...string) (all []netip.Prefix) {
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// Interfaces that try addresses at the same time end with different ones, none of which another interface
// has, however late each of them learns of the others.
func TestBiddersEndApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "interfaces")
		lost := rapid.SampledFrom([]int{0, commonPicks}).Draw(t, "lost")
		seeds := rapid.IntRange(1, 3).Draw(t, "seeds")
		p := prefixes("10.9.0.0/28", "fd00::/64")
		var all []*bidder
		said := make([]announcement, n) // what each announces now
		for i := range n {
			b, err := newBidder(Picks{Prefixes: p, Seed: fmt.Sprint(i % seeds), AllUsers: i%3 == 0}, uint64(i+1))
			if err != nil {
				t.Fatal(err)
			}
			b.lost = lost
			all, said[i] = append(all, b), *b.announcement()
		}
		others := []announcement{
			{life: 99, addresses: []netip.Addr{candidate(p[0], "0", 0)}},
			{life: 98, claim: picked, addresses: []netip.Addr{candidate(p[0], "0", 1), candidate(p[1], "0", 0)}},
		}
		known := make([][]announcement, n) // what each knows of the others
		for i := range n {
			known[i] = make([]announcement, n)
		}
		step := func(i int) (changed bool) {
			changed, err := all[i].giveWay(append(slices.Delete(slices.Clone(known[i]), i, i+1), others...))
			if err != nil {
				t.Fatal(err)
			}
			said[i] = *all[i].announcement()
			return changed
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") { // news of one comes to one
			i, j := rapid.IntRange(0, n-1).Draw(t, "to"), rapid.IntRange(0, n-1).Draw(t, "from")
			known[i][j] = said[j]
			step(i)
		}
		for changed, rounds := true, 0; changed; rounds++ { // all news come to all
			if rounds > 10*n {
				t.Fatalf("it does not end")
			}
			changed = false
			for i := range n {
				copy(known[i], said)
				changed = step(i) || changed
			}
		}
		have := make(map[netip.Addr]bool)
		for _, o := range append(others, said...) {
			for _, ip := range o.addresses {
				if have[ip] {
					t.Fatalf("two have %v", ip)
				}
				have[ip] = true
			}
		}
	})
}

// Interfaces of one engine that pick with one seed at once get different addresses, and not that which a
// user has given to another. One that starts again gets its own.
func TestPick(t *testing.T) {
	socket := serve(t)
	p := Picks{Prefixes: prefixes("10.9.0.0/28", "fd00::/64"), Seed: "one", Name: "x"}
	start(t, socket, candidate(p.Prefixes[0], "one", 0).String())
	dial := func() *nicless.Context {
		c, err := nicless.Dial(socket)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	const n = 6
	contexts, all := make([]*nicless.Context, n), make([]*Picked, n)
	var together sync.WaitGroup
	for i := range n {
		contexts[i] = dial()
		together.Go(func() {
			var err error
			all[i], err = Pick(t.Context(), contexts[i], p)
			require.NoError(t, err)
		})
	}
	together.Wait()
	have := map[netip.Addr]bool{candidate(p.Prefixes[0], "one", 0): true}
	for _, got := range all {
		require.Len(t, got.Addresses, 2)
		for i, a := range got.Addresses {
			require.Equal(t, p.Prefixes[i], a.Masked())
			require.False(t, have[a.Addr()], "two have %v", a)
			have[a.Addr()] = true
		}
	}
	// One comes when the others have theirs, goes and comes back; the others stay. With their seed it would
	// perhaps find an address at which they have tried, and that nobody has kept.
	for i, got := range all {
		has := announcement{life: got.life, area: -1, name: "x", claim: picked}
		for _, a := range got.Addresses {
			has.addresses = append(has.addresses, a.Addr())
		}
		require.NoError(t, contexts[i].Announce(has.put(nil)))
	}
	p.Seed = "two"
	one := dial()
	before, err := Pick(t.Context(), one, p)
	require.NoError(t, err)
	require.NoError(t, one.Close())
	again, err := Pick(t.Context(), dial(), p)
	require.NoError(t, err)
	require.Equal(t, before.Addresses, again.Addresses)
}

// An interface that has no core while another one announces the same address sees that before it keeps it,
// however late it is.
func TestPickIsLate(t *testing.T) {
	socket := serve(t)
	ours, other := client(t, socket), client(t, socket)
	p := Picks{Prefixes: prefixes("10.9.0.0/28"), Seed: "one", Name: "x"}
	first := candidate(p.Prefixes[0], p.Seed, 0)
	var passed time.Duration
	got, err := pick(t.Context(), ours, p, func() time.Time {
		passed += 2 * bidTime // each time it looks at the clock
		said := announcement{life: 1, mtu: 1500, area: -1, name: "y", addresses: []netip.Addr{first}, claim: bid}
		require.NoError(t, other.Announce(said.put(nil)))
		return time.Unix(1, 0).Add(passed)
	})
	require.NoError(t, err)
	require.Equal(t, candidate(p.Prefixes[0], p.Seed, 1), got.Addresses[0].Addr())
}

// An interface that has picked its address gives way to one that was given the same, has the lower life, or
// announces to all users and may not know of it; it stays if the other has the higher life, or only tries the
// address. One that tries is no peer.
func TestGivesWay(t *testing.T) {
	for _, c := range []struct {
		claim claim
		lower bool
		toAll bool
		gives bool
	}{
		{claim: given, gives: true}, {claim: picked, lower: true, gives: true}, {claim: picked}, {claim: bid, lower: true},
		{claim: picked, toAll: true, gives: true}, {claim: bid, lower: true, toAll: true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			socket := serve(t)
			var log lines
			n, done := startPicked(t, socket, &log)
			other := client(t, socket)
			said := announcement{life: n.in.life + 1, mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{n.addr}, claim: c.claim, toAll: c.toAll}
			if c.lower {
				said.life = n.in.life - 1
			}
			require.NoError(t, other.Announce(said.put(nil)))
			if c.gives {
				err := <-done
				require.ErrorIs(t, err, ErrGaveWay)
				var clash *Clash
				require.ErrorAs(t, err, &clash)
				require.Equal(t, n.addr, clash.Address)
				// It does not pick this address again, though the other does not show up any more.
				require.NoError(t, other.Announce(nil))
				p := Picks{Prefixes: prefixes("10.8.0.0/29"), Seed: "a", Kept: []netip.Addr{clash.Address}}
				got, err := Pick(t.Context(), other, p)
				require.NoError(t, err)
				require.NotEqual(t, n.addr, got.Addresses[0].Addr())
				return
			}
			friend := start(t, socket, "10.8.0.9")
			n.peer(friend.addr) // it has seen the other before
			require.Equal(t, c.claim != bid, strings.Contains(log.text(), "interface ignored"))
		})
	}
}

// startPicked runs an interface that has picked its address. The result of Run comes to done.
func startPicked(t *testing.T, socket string, log *lines) (n *node, done chan error) {
	t.Helper()
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	got, err := Pick(t.Context(), c, Picks{Prefixes: prefixes("10.8.0.0/29"), Seed: "a"})
	require.NoError(t, err)
	n = openOn(t, c, got.Addresses[0].Addr().String(), func(cfg *Config) { cfg.Picked, cfg.Log = got, logTo(log) })
	ctx, cancel := context.WithCancel(context.Background())
	done = make(chan error, 2)
	ended := make(chan struct{})
	go func() {
		done <- n.in.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		require.NoError(t, c.Close())
	})
	return n, done
}

// Networks from which no address can be picked are refused, and so is one whose addresses are taken.
func TestPrefixes(t *testing.T) {
	for _, c := range []struct {
		list []netip.Prefix
		why  string
	}{
		{nil, "0 prefixes; 1 to 4 are possible"},
		{prefixes("10.9.0.1/16"), "prefix 10.9.0.1/16 is not a network"},
		{prefixes("10.9.0.0/31"), "prefix 10.9.0.0/31 has no addresses to pick from; at most 30 bits are possible"},
		{prefixes("fd00::/127"), "at most 126 bits are possible"},
		{prefixes("224.0.0.0/16"), "prefix 224.0.0.0/16 has addresses that no interface can have"},
		{prefixes("0.0.0.0/0"), "prefix 0.0.0.0/0 has addresses that no interface can have"},
		{prefixes("10.0.0.0/8", "10.9.0.0/16"), "prefixes 10.0.0.0/8 and 10.9.0.0/16 overlap"},
	} {
		_, err := newBidder(Picks{Prefixes: c.list}, 1)
		require.ErrorContains(t, err, c.why)
	}
	p := netip.MustParsePrefix("10.9.0.0/30")
	b, err := newBidder(Picks{Prefixes: []netip.Prefix{p}}, 5)
	require.NoError(t, err)
	require.Equal(t, "10.9.0.2", last(p).String())
	_, err = b.giveWay([]announcement{{addresses: []netip.Addr{nth(p, 1), nth(p, 2)}}})
	require.ErrorContains(t, err, "all 2 addresses of 10.9.0.0/30 are taken")
}

// Each address of a network is tried once, and neither the first nor the last.
func TestCandidates(t *testing.T) {
	p := netip.MustParsePrefix("10.9.4.0/26")
	have := make(map[netip.Addr]bool)
	for n := range room(p) {
		have[candidate(p, "x", n)] = true
	}
	require.Len(t, have, 62)
	require.False(t, have[nth(p, 0)] || have[nth(p, 63)])
	require.NotEqual(t, candidate(p, "x", 0), candidate(p, "y", 0))
	long := netip.MustParsePrefix("fd6e::/64")
	require.True(t, long.Contains(candidate(long, "x", 0)))
}

func TestHost(t *testing.T) {
	for name, want := range map[string]string{"Web_1.example.org": "web-1", "--a--": "a", "müller": "m-ller", "": "", "...": "", "_": ""} {
		require.Equal(t, want, Host(name))
	}
	long := "x123456789x123456789x123456789x123456789x123456789x123456789xy--z"
	require.Equal(t, long[:62], Host(long))
	require.NoError(t, CheckHost(Host(long)))
	for _, bad := range []string{"", "A", "a.b", "-a", "a-", "a b", long, "a\x00", "ü"} {
		require.Error(t, CheckHost(bad), bad)
	}
}
