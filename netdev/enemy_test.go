//go:build linux && (amd64 || arm64)

package netdev

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric"
)

// An interface that announces other addresses is checked anew: it gets none that another has, and one without
// addresses is no peer.
func TestAddressesChange(t *testing.T) {
	socket := serve(t)
	a, friend := start(t, socket, "10.1.0.1"), start(t, socket, "10.1.0.2")
	a.meets(friend)
	c := client(t, socket)
	said := announcement{life: 5, mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
	for _, other := range [][]netip.Addr{nil, {friend.addr}, {a.addr}, {netip.MustParseAddr("10.1.0.66"), friend.addr}} {
		require.NoError(t, c.Announce(said.put(nil)))
		a.until("there are two peers", func(s Stats) bool { return len(s.Peers) == 2 })
		bad := said
		bad.addresses = other
		require.NoError(t, c.Announce(bad.put(nil)))
		a.until("there is one peer", func(s Stats) bool { return len(s.Peers) == 1 })
		for i := range uint32(20) {
			a.sends(friend.addr, 100, i)
			require.Equal(t, packet(a.addr, friend.addr, 100, i), friend.gets())
		}
	}
}

// A client that says that it is in the life of another interface is no peer: sessions are named by lives.
func TestLifeIsTaken(t *testing.T) {
	socket := serve(t)
	a, friend := start(t, socket, "10.1.0.1"), start(t, socket, "10.1.0.2")
	a.meets(friend)
	friend.meets(a)
	c := client(t, socket)
	for i, n := range []*node{a, friend} {
		said := announcement{life: n.in.life, mtu: 1500, area: -1, name: "twin", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
		require.NoError(t, c.Announce(said.put(nil)))
		// A second client comes later: an interface that has seen it has seen the twin.
		later := client(t, socket)
		said.life, said.addresses = uint64(i+1), []netip.Addr{netip.MustParseAddr("10.1.0.67")}
		require.NoError(t, later.Announce(said.put(nil)))
		for _, m := range []*node{a, friend} {
			m.until("it knows the later one", func(s Stats) bool { return len(s.Peers) == 2 && s.Peers[1].Addresses[0] == said.addresses[0] })
		}
		require.NoError(t, later.Close())
		for _, m := range []*node{a, friend} {
			m.until("there is one peer", func(s Stats) bool { return len(s.Peers) == 1 })
		}
	}
	a.sends(friend.addr, 100, 1)
	require.Equal(t, packet(a.addr, friend.addr, 100, 1), friend.gets())
}

// However many peers take nothing, the others get their packets.
func TestPeersStand(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			a, b := two(t, way, "10.1.0.1", "10.1.0.2")
			stand := []*node{b}
			for i := range 3 {
				change := func(*Config) {}
				if way == "slots" && i < 2 {
					change = slotsOf(t, filepath.Join(filepath.Dir(a.socket), "slots"), i+2)
				}
				n := start(t, a.socket, fmt.Sprintf("10.1.0.%d", i+3), change)
				a.meets(n)
				n.meets(a)
				stand = append(stand, n)
			}
			c := stand[len(stand)-1]
			stand = stand[:len(stand)-1]
			for _, n := range stand {
				for i, dropped := 0, a.in.Stats().Dropped; a.in.Stats().Dropped == dropped; i++ {
					require.Less(t, i, 3000)
					a.sends(n.addr, 600, uint32(i))
				}
			}
			for i := range uint32(200) {
				a.sends(c.addr, 600, i)
				require.Equal(t, packet(a.addr, c.addr, 600, i), c.gets())
			}
		})
	}
}

// lines is a log that counts its lines.
type lines struct {
	sync.Mutex
	strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Builder.Write(b)
}

func (l *lines) text() string {
	l.Lock()
	defer l.Unlock()
	return l.String()
}

func logTo(l *lines) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Clients that announce something else all the time cause a limited number of lines of log.
func TestLogHasABudget(t *testing.T) {
	var out lines
	a := start(t, serve(t), "10.1.0.1", func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&out, nil)) })
	c := client(t, a.socket)
	for i := range byte(2 * fabric.LinesPerMinute) {
		ip := netip.AddrFrom4([4]byte{10, 1, 1, i})
		said := announcement{life: uint64(i) + 1, mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{ip}}
		require.NoError(t, c.Announce(said.put(nil)))
		a.until("it knows the newest", func(s Stats) bool { return len(s.Peers) == 1 && s.Peers[0].Addresses[0] == ip })
	}
	out.Lock()
	defer out.Unlock()
	require.LessOrEqual(t, strings.Count(out.String(), "\n"), fabric.LinesPerMinute)
	require.Greater(t, strings.Count(out.String(), "\n"), fabric.LinesPerMinute/4)
}

// A second interface with the number of a node that is in use is refused, and the first keeps its slots.
func TestNodeIsTaken(t *testing.T) {
	a, b := two(t, "slots", "10.1.0.1", "10.1.0.2")
	path := filepath.Join(filepath.Dir(a.socket), "slots")
	c, err := nicless.Dial(a.socket)
	require.NoError(t, err)
	defer c.Close()
	for address, want := range map[string]string{
		"10.1.0.9": "slots: node 0 is taken: interface test1 of engine",
		"10.1.0.1": "address 10.1.0.1 is taken",
	} {
		cfg := Config{Name: "x", MTU: 65520, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
		slotsOf(t, path, 0)(&cfg)
		_, err = Open(c, newWire(), cfg)
		require.ErrorContains(t, err, want)
	}
	require.True(t, b.in.slots.signedBy(0, a.in.life), "the first interface's slots are its own")
}

// An interface does not follow a client that announces something else all the time: it has packets to take.
// How often it looks is in TestLooksAreRare.
func TestAnnouncementsFlap(t *testing.T) {
	a := start(t, serve(t), "10.1.0.1")
	c := client(t, a.socket)
	said := announcement{mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
	for said.life = 1; said.life <= 2000; said.life++ {
		require.NoError(t, c.Announce(said.put(nil)))
	}
	a.until("there is one peer", func(s Stats) bool { return len(s.Peers) == 1 })
	a.stop()
}

// However much news there is, an interface looks once in lookPause, and spends one part in lookShare of its
// time.
func TestLooksAreRare(t *testing.T) {
	for _, one := range []time.Duration{0, time.Microsecond, lookPause} { // that a look takes
		synctest.Test(t, func(t *testing.T) {
			in := &Interface{lookShare: lookShare, wake: func() {}}
			looks, begin := 0, time.Now()
			for time.Since(begin) < time.Second {
				in.news()
				time.Sleep(10 * time.Microsecond) // of the bubble's clock
				synctest.Wait()
				if in.changed.Swap(false) {
					in.beginLook()
					in.lookTook = one
					looks++
				}
			}
			pause := max(lookPause, lookShare*one)
			require.LessOrEqual(t, looks, int(time.Second/pause)+2)
			require.GreaterOrEqual(t, looks, int(time.Second/pause)*9/10, "and it does look")
			time.Sleep(time.Minute) // for the last timer
		})
	}
}

// A cut device stands for a kernel that writes into a slot whose file has become shorter meanwhile.
type cut struct {
	*wire
	path string
}

func (c cut) Read([]byte) (int, error) {
	if err := os.Truncate(c.path, 0); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("the interface is gone: %w", syscall.EFAULT)
}

// If the file of the slots becomes shorter, the error says so, and not that the kernel's interface is gone.
func TestSlotsAreCut(t *testing.T) {
	socket := serve(t)
	path := filepath.Join(filepath.Dir(socket), "slots")
	cfg := Config{Name: "x", MTU: 65520, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}
	slotsOf(t, path, 0)(&cfg)
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	defer c.Close()
	in, err := Open(c, cut{newWire(), path}, cfg)
	require.NoError(t, err)
	require.ErrorIs(t, in.Run(t.Context()), errGone)
}

// A peer that takes a packet now and then does not make the others wait each time: while packets wait for it,
// its credit goes down, and of that it gets packetTime for each that it takes.
func TestPeerIsSlow(t *testing.T) {
	a, b := two(t, "messages", "10.1.0.1", "10.1.0.2")
	p := a.in.routes.Load().byAddress[b.addr]
	sent := 0
	// send sends a packet, and returns whether it was dropped.
	send := func() bool {
		before := a.in.Stats().Dropped
		a.sends(b.addr, 600, 0)
		sent++
		poll(t, "the packet is sent or dropped", func() bool {
			s := a.in.Stats()
			return s.Peers[0].Sent+s.Dropped == uint64(sent)
		}, func() any { return a.in.Stats() })
		return a.in.Stats().Dropped > before
	}
	// drop sends until nothing more has room: in b's wire, in its receives, and in what it may hold. On a
	// busy machine packets are dropped before, too.
	got := 0
	drop := func() {
		for full := false; !send() || !full; {
			full = int(a.in.Stats().Peers[0].Sent)-a.in.held(b.addr) >= got+cap(b.wire.out)+receiveBuffers
		}
	}
	credit := func() time.Duration {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waitCredit
	}
	drop()
	for range 20 {
		held := a.in.held(b.addr)
		require.NotZero(t, held)
		before := credit()
		b.gets()
		got++
		left := held
		poll(t, "it has taken one", func() bool { left = a.in.held(b.addr); return left < held })
		require.LessOrEqual(t, credit(), before+time.Duration(held-left)*packetTime)
		drop()
	}
	stalled := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.stalled
	}
	for !stalled() {
		send()
	}
	// Answers to its messages, of which it can cause any number, are not packets that it takes.
	p.mu.Lock()
	p.posted++
	p.heads++
	p.in.heads.Add(1)
	p.mu.Unlock()
	p.sendDone(noPacket, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.True(t, p.stalled)
}
