//go:build linux && (amd64 || arm64)

package netdev

import (
	"flag"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/shm"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
)

var rack = flag.Int("rack", 48, "number of interfaces of TestRack")

// rackTalks is with how many others each interface of TestRack exchanges packets.
const rackTalks = 16

func rackAddress(i int) string { return fmt.Sprintf("10.1.%d.%d", 1+i/200, 1+i%200) }

// Many interfaces find each other, and each exchanges packets with some. The first packets are not lost, and
// there are no more sessions than pairs that talk.
//
//	go test ./netdev -run TestRack -rack 250
func TestRack(t *testing.T) {
	socket := serve(t)
	rackNodes := *rack
	if shm.RaceEnabled {
		rackNodes = min(rackNodes, 16)
	}
	var all []*node
	for i := range rackNodes {
		all = append(all, start(t, socket, rackAddress(i)))
	}
	for _, n := range all {
		n.until("it knows all others", func(s Stats) bool { return len(s.Peers) == rackNodes-1 })
		require.Zero(t, n.in.Stats().Sessions)
	}
	for k := 1; k <= rackTalks; k++ {
		for i, n := range all {
			n.sends(all[(i+k*(k+1)/2)%rackNodes].addr, 100*k, uint32(i*rackTalks+k))
		}
	}
	want := make([]map[string]bool, rackNodes)
	pairs := make(map[[2]int]bool)
	for i, n := range all {
		for k := 1; k <= rackTalks; k++ {
			to := (i + k*(k+1)/2) % rackNodes
			if want[to] == nil {
				want[to] = make(map[string]bool)
			}
			want[to][string(packet(n.addr, all[to].addr, 100*k, uint32(i*rackTalks+k)))] = true
			pairs[[2]int{min(i, to), max(i, to)}] = true
		}
	}
	left := rackNodes * rackTalks
	dropped := func() (sum int) {
		for _, n := range all {
			sum += int(n.in.Stats().Dropped)
		}
		return sum
	}
	// A dial may take longer than packets wait for it, on a busy machine. Then they are counted.
	poll(t, "all packets have come or were counted", func() bool {
		for i, n := range all {
			for range len(n.wire.out) {
				b := string(<-n.wire.out)
				require.True(t, want[i][b], "a packet that was not sent, or came before")
				delete(want[i], b)
				left--
			}
		}
		return left <= dropped()
	}, func() any { return []int{left, dropped()} })
	require.Less(t, left, rackNodes*rackTalks/2, "most have come")
	sessions := 0
	for _, n := range all {
		s := n.in.Stats()
		require.Zero(t, s.Unreachable)
		sessions += s.Sessions
	}
	require.LessOrEqual(t, sessions, 2*len(pairs)+rackNodes) // one of crossing dials may be about to end
}

// A session that is quiet ends at both sides, also if both end it at once. The next packet opens another, and
// is not lost.
func TestQuietSession(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			a, b := two(t, way, "10.1.0.1", "10.1.0.2")
			for i := range uint32(20) {
				require.Equal(t, 1, a.in.Stats().Sessions)
				if i&1 == 0 {
					b.passes(quietTime + 3*sweepPause)
				}
				if i%3 > 0 {
					a.passes(quietTime + 3*sweepPause)
				}
				if i&1 == 0 || i%3 > 0 {
					for _, n := range []*node{a, b} {
						n.until("the session has ended", func(s Stats) bool { return s.Sessions == 0 })
						require.Equal(t, noSession, n.in.Stats().Peers[0].Why)
					}
				}
				for range 3 {
					a.sends(b.addr, 3000, i)
					require.Equal(t, packet(a.addr, b.addr, 3000, i), b.gets())
				}
				b.sends(a.addr, 3000, i)
				require.Equal(t, packet(b.addr, a.addr, 3000, i), a.gets())
			}
			require.Zero(t, a.in.Stats().Dropped+b.in.Stats().Dropped)
		})
	}
}

// A session with packets does not end, however long it lasts.
func TestBusySession(t *testing.T) {
	a, b := two(t, ways[0], "10.1.0.1", "10.1.0.2")
	for i := range uint32(200) {
		a.sends(b.addr, 100, i)
		require.Equal(t, packet(a.addr, b.addr, 100, i), b.gets())
		for _, n := range []*node{a, b} {
			n.passes(quietTime / 4)
		}
	}
	require.Equal(t, 1, a.in.Stats().Sessions)
	require.EqualValues(t, 0, a.in.Stats().Waited)
}

// Packets of both sides that cross while sessions end and begin arrive, each once and in order.
func TestPacketsWhileSessionsEnd(t *testing.T) {
	socket := serve(t)
	var both []*node
	for _, address := range []string{"10.1.0.1", "10.1.0.2"} {
		c, err := nicless.Dial(socket)
		require.NoError(t, err)
		n := openOn(t, c, address)
		n.in.quiet = 0 // two looks without a packet between them are enough
		n.run()
		both = append(both, n)
	}
	a, b := both[0], both[1]
	a.peer(b.addr)
	b.peer(a.addr)
	for i := range uint32(400) {
		a.sends(b.addr, 64, i)
		b.sends(a.addr, 64, i)
		for _, n := range both[:i%3] {
			n.passes(3 * sweepPause)
		}
		if i%4 == 3 {
			for j := i - 3; j <= i; j++ {
				require.Equal(t, packet(a.addr, b.addr, 64, j), b.gets())
				require.Equal(t, packet(b.addr, a.addr, 64, j), a.gets())
			}
		}
	}
	require.Zero(t, a.in.Stats().Dropped+b.in.Stats().Dropped)
	require.NotZero(t, a.in.Stats().Waited+b.in.Stats().Waited, "some sessions have ended")
}

// For a session more than there may be, the one ends that has been quiet for longest; if none is quiet, the
// packet is dropped, and the reason is there in words.
func TestMostSessions(t *testing.T) {
	socket := serve(t)
	const most = 3
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	a := openOn(t, c, "10.1.0.1")
	a.in.maxSessions = most
	a.stand() // no session is quiet for long, however slow the test is
	a.run()
	var others []*node
	for i := range most + 2 {
		others = append(others, start(t, socket, fmt.Sprintf("10.1.0.%d", 2+i)))
	}
	speak := func(i int) {
		t.Helper()
		a.peer(others[i].addr)
		a.sends(others[i].addr, 100, uint32(i))
		require.Equal(t, packet(a.addr, others[i].addr, 100, uint32(i)), others[i].gets())
	}
	for i := range most {
		speak(i)
	}
	a.peer(others[most].addr)
	a.sends(others[most].addr, 100, 1)
	a.until("the packet is dropped", func(s Stats) bool { return s.Dropped == 1 })
	var why string
	for _, p := range a.in.Stats().Peers {
		if p.Addresses[0] == others[most].addr {
			why = p.Why
		}
	}
	require.Equal(t, "peer cannot be reached: 3 sessions are open, which is the most, and none has been quiet for 2s", why)
	// The other side is refused with the same words.
	n := others[most+1]
	n.peer(a.addr)
	n.sends(a.addr, 100, 1)
	n.until("the packet is dropped", func(s Stats) bool { return s.Dropped == 1 })
	require.Contains(t, n.in.Stats().Peers[0].Why, "the listener has refused: 3 sessions are open")

	a.goOn()
	a.passes(leastQuiet + 3*sweepPause)
	speak(1)
	speak(2) // so the first is the quietest
	a.passes(sweepPause)
	await.Until(t, "a packet comes", func() bool {
		a.sends(others[most].addr, 100, 9)
		select {
		case <-others[most].wire.out:
			return true
		default:
			return false
		}
	}, func() any { return a.in.Stats() })
	require.LessOrEqual(t, a.in.Stats().Sessions, most)
	others[0].until("its session has ended", func(s Stats) bool { return s.Sessions == 0 })
	speak(1)
}

// There is a limit of peers, and the log says so. When one goes, another has its place.
func TestMostPeers(t *testing.T) {
	socket := serve(t)
	var out lines
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	a := openOn(t, c, "10.1.0.1", func(c *Config) { c.Log = logTo(&out) })
	a.in.maxPeers = 2
	a.run()
	var others []*node
	for i := range 3 {
		others = append(others, start(t, socket, fmt.Sprintf("10.1.0.%d", 2+i)))
		for _, n := range others[:i] {
			others[i].peer(n.addr)
		}
	}
	await.Until(t, "the log says why", func() bool { return strings.Contains(out.text(), "there are 2 peers already") })
	require.Len(t, a.in.Stats().Peers, 2)
	others[0].stop()
	a.peer(others[2].addr)
	a.peer(others[1].addr)
	a.meets(others[2])
}

// Packets that wait for a session are few: more are dropped, and counted.
func TestPacketsThatWait(t *testing.T) {
	socket := serve(t)
	ours, err := nicless.Dial(socket)
	require.NoError(t, err)
	a := startOn(t, ours, "10.1.0.1")
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	defer c.Close()
	l, err := c.ListenName(dialled, nicless.ListenConfig{})
	require.NoError(t, err)
	said := announcement{life: 1, mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
	require.NoError(t, c.Announce(said.put(nil)))
	a.peer(said.addresses[0])
	for i := range uint32(2 * mostWaiting) {
		a.sends(said.addresses[0], 100, i)
	}
	a.until("some are dropped", func(s Stats) bool { return s.Dropped == mostWaiting && s.Waited == mostWaiting })
	// Other peers have theirs.
	b := start(t, socket, "10.1.0.2")
	a.peer(b.addr)
	a.sends(b.addr, 100, 7)
	require.Equal(t, packet(a.addr, b.addr, 100, 7), b.gets())
	// All are dropped when there will be no session.
	dial, err := l.Accept(await.Context(t))
	require.NoError(t, err)
	require.NoError(t, dial.Reject("it has other plans"))
	a.until("all are dropped", func(s Stats) bool { return s.Dropped == 2*mostWaiting })
	require.Contains(t, a.why(said.addresses[0]), "peer cannot be reached: ")
	require.Contains(t, a.why(said.addresses[0]), "it has other plans")
	require.Zero(t, a.in.waiting.bytes.Load())
}

// A dial that nobody answers is given up, and its packets are dropped.
func TestDialIsGivenUp(t *testing.T) {
	socket := serve(t)
	ours, err := nicless.Dial(socket)
	require.NoError(t, err)
	a := openOn(t, ours, "10.1.0.1")
	a.in.openTime = 50 * time.Millisecond
	a.run()
	c := client(t, socket)
	said := announcement{life: 1, mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
	require.NoError(t, c.Announce(said.put(nil)))
	a.peer(said.addresses[0])
	a.sends(said.addresses[0], 100, 1)
	a.until("it is dropped", func(s Stats) bool { return s.Dropped == 1 })
	require.Contains(t, a.why(said.addresses[0]), "peer cannot be reached: ")
	require.Zero(t, a.in.waiting.bytes.Load())
}

// Also of all peers together only so many bytes wait.
func TestBytesThatWait(t *testing.T) {
	socket := serve(t)
	a := start(t, socket, "10.1.0.1")
	const peers = 20
	var to []netip.Addr
	for i := range peers {
		c := client(t, socket)
		said := announcement{life: uint64(i + 1), mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 1, byte(i)})}}
		require.NoError(t, c.Announce(said.put(nil)))
		to = append(to, said.addresses[0])
	}
	for _, ip := range to {
		a.peer(ip)
		a.sends(ip, 60000, 1)
	}
	a.until("some are dropped", func(s Stats) bool { return s.Dropped > 0 && s.Waited+s.Dropped >= peers })
	require.Less(t, a.in.Stats().Waited, uint64(peers))
	require.Greater(t, a.in.Stats().Waited, uint64(waitingBytes/70000))
}

func (n *node) why(with netip.Addr) string {
	for _, p := range n.in.Stats().Peers {
		if p.Addresses[0] == with {
			return p.Why
		}
	}
	return ""
}

// More peers than there are buffers take nothing. The others get their packets for all that.
func TestManyPeersStand(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			socket := serve(t)
			with := func(*Config) {}
			if way == "slots" {
				with = slotsOf(t, filepath.Join(filepath.Dir(socket), "slots"), 0)
			}
			a, friend := start(t, socket, "10.1.0.1", with), start(t, socket, "10.1.0.2")
			a.meets(friend)
			const enemies = sendBuffers + 6
			var to []netip.Addr
			for i := range enemies {
				// It takes the dial, and has no receives.
				ip := netip.AddrFrom4([4]byte{10, 1, 1, byte(i + 1)})
				newStranger(t, a, announcement{life: uint64(i + 1), mtu: 65520, area: -1, name: "enemy", addresses: []netip.Addr{ip}}, noReceives)
				to = append(to, ip)
			}
			for range 2 {
				for _, ip := range to {
					a.sends(ip, 700, 1)
				}
			}
			for i := range uint32(50) {
				a.sends(friend.addr, 700, i)
				require.Equal(t, packet(a.addr, friend.addr, 700, i), friend.gets())
			}
		})
	}
}

// A dial from a client that has announced no interface is refused, with the reason.
func TestDialOfUnknown(t *testing.T) {
	a := start(t, serve(t), "10.1.0.1")
	c := client(t, a.socket)
	s := &stranger{t: t, c: c, to: a.addr}
	s.makeQueues()
	err := s.dial()
	require.ErrorIs(t, err, nicless.ErrRejected)
	require.ErrorContains(t, err, "no interface is known here that has this box")
	require.Zero(t, a.in.Stats().Sessions)
}
