//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
)

// ways are with and without shared slots.
var ways = []string{"messages", "slots"}

// two starts two interfaces that are up.
func two(t *testing.T, way string, addresses ...string) (a, b *node) {
	t.Helper()
	socket := serve(t)
	var with [2]func(*Config)
	for i := range with {
		with[i] = func(*Config) {}
		if way == "slots" {
			with[i] = slotsOf(t, filepath.Join(filepath.Dir(socket), "slots"), i)
		}
	}
	a, b = start(t, socket, addresses[0], with[0]), start(t, socket, addresses[1], with[1])
	a.meets(b)
	b.meets(a)
	if way == "slots" {
		read := func(s Stats) bool { return s.Peers[0].Slots }
		a.until("its slots are read", read)
		b.until("its slots are read", read)
	}
	return a, b
}

// Packets of all lengths arrive as they were sent, in order, whatever the version of IP is.
func TestPackets(t *testing.T) {
	for _, way := range ways {
		for _, pair := range [][]string{{"10.1.0.1", "10.1.0.2"}, {"fd00::1", "fd00::2"}} {
			t.Run(way+" "+pair[0], func(t *testing.T) {
				a, b := two(t, way, pair...)
				head := len(packet(a.addr, b.addr, 0, 0))
				sizes := []int{0, 1, shortPacket - head, shortPacket - head + 1, 1472, 9000, 65520 - head, MaxPacket - head}
				for size := 0; size+head <= MaxPacket; size += 997 {
					sizes = append(sizes, size)
				}
				for i, size := range sizes {
					want := packet(a.addr, b.addr, size, uint32(i))
					a.sends(b.addr, size, uint32(i))
					require.Equal(t, want, b.gets(), "%d bytes", size)
				}
				b.sends(a.addr, 100, 7)
				require.Equal(t, packet(b.addr, a.addr, 100, 7), a.gets())
				// Counted after it is delivered.
				a.until("it is counted", func(s Stats) bool { return s.Peers[0].Received == 1 })
				s := a.in.Stats()
				require.EqualValues(t, len(sizes), s.Peers[0].Sent)
				require.Zero(t, s.Dropped+s.Unreachable+s.Peers[0].Refused)
			})
		}
	}
}

// The kernel gets an error when no peer has an address.
func TestUnreachable(t *testing.T) {
	for _, pair := range [][]string{{"10.1.0.1", "10.1.0.9"}, {"fd00::1", "fd00::9"}} {
		n := start(t, serve(t), pair[0])
		n.stand()
		to := netip.MustParseAddr(pair[1])
		n.sends(to, 2000, 1)
		b := n.gets()[HeaderSize:]
		quote := packet(n.addr, to, 2000, 1)[HeaderSize:][:mostQuoted]
		if to.Is4() {
			require.Equal(t, []byte{1, 3, 1}, []byte{b[9], b[20], b[21]}, "ICMP, destination unreachable, host")
			require.Zero(t, checksum(b[:20]))
			require.Zero(t, checksum(b[20:]))
			require.Equal(t, quote, b[28:])
		} else {
			require.Equal(t, []byte{58, 1, 3}, []byte{b[6], b[40], b[41]}, "ICMPv6, destination unreachable, address")
			require.Equal(t, quote, b[48:])
		}
		require.EqualValues(t, 1, n.in.Stats().Unreachable)
		// There are not more answers than programs need, and again some when time has passed.
		for i := range 5 * mostAnswers {
			n.sends(to, 0, uint32(i))
		}
		n.until("all are counted", func(s Stats) bool { return s.Unreachable == 1+5*mostAnswers })
		require.Len(t, n.wire.out, mostAnswers-1)
		n.passes(answerSpan + 1)
		n.sends(to, 0, 1)
		for range mostAnswers {
			n.gets()
		}
	}
}

func TestThreePeers(t *testing.T) {
	socket := serve(t)
	all := []*node{start(t, socket, "10.1.0.1"), start(t, socket, "10.1.0.2"), start(t, socket, "10.1.0.3")}
	for _, a := range all {
		for _, b := range all {
			if a != b {
				a.meets(b)
			}
		}
	}
	for i := range uint32(50) {
		for _, a := range all {
			for _, b := range all {
				if a != b {
					a.sends(b.addr, int(i)*100, i)
					require.Equal(t, packet(a.addr, b.addr, int(i)*100, i), b.gets())
				}
			}
		}
	}
}

// A peer that is killed is gone at once, and its address can be used again.
func TestPeerReturns(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			a, b := two(t, way, "10.1.0.1", "10.1.0.2")
			for range 3 {
				a.sends(b.addr, 3000, 1)
				b.gets()
				b.stop()
				a.until("there is no peer", func(s Stats) bool { return len(s.Peers) == 0 })
				b = start(t, a.socket, "10.1.0.2")
				a.meets(b)
				b.meets(a)
			}
			a.sends(b.addr, 3000, 2)
			require.Equal(t, packet(a.addr, b.addr, 3000, 2), b.gets())
		})
	}
}

// A session whose queue pair has failed, on one side or on both, begins anew.
func TestSessionBeginsAnew(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			a, b := two(t, way, "10.1.0.1", "10.1.0.2")
			// More often than there are receives: none may be lost when a session ends.
			for i := range receiveBuffers + 10 {
				for j, n := range []*node{a, b} {
					if (i+1)>>j&1 != 0 || i%3 == 2 {
						n.breaks()
					}
				}
				// Packets that were sent meanwhile can be lost, so packets are sent until one arrives.
				a.flows(b)
				b.flows(a)
			}
		})
	}
}

// breaks has the queue pair to the only peer fail, if there is one at the moment.
func (n *node) breaks() {
	p := n.in.routes.Load().all[0]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.qp != nil {
		assert.NoError(n.t, p.qp.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateERR}))
	}
}

// flows sends packets until one arrives.
func (n *node) flows(to *node) {
	n.t.Helper()
	poll(n.t, "a packet arrives", func() bool {
		n.sends(to.addr, 2000, 1)
		select {
		case <-to.wire.out:
			return true
		default:
			return false
		}
	})
	for {
		select {
		case <-to.wire.out:
			continue
		default:
			return
		}
	}
}

// A peer that takes no packets does not delay the others, and goes on when it takes packets again.
func TestPeerStands(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			a, b := two(t, way, "10.1.0.1", "10.1.0.2")
			c := start(t, a.socket, "10.1.0.3")
			a.meets(c)
			c.meets(a)
			// The test takes no packets from b's wire. It is full after 1024, then its receives are used
			// up, and then what a peer may hold. On a busy machine b may be so slow that a drops some
			// before.
			poll(t, "b's wire is full", func() bool {
				for i := range uint32(50) {
					a.sends(b.addr, 600, i)
				}
				return len(b.wire.out) == cap(b.wire.out)
			}, func() any { return len(b.wire.out) })
			before := a.in.Stats().Dropped
			for i := 0; a.in.Stats().Dropped == before; i++ {
				require.Less(t, i, 3000)
				a.sends(b.addr, 600, uint32(i))
			}
			for i := range uint32(200) {
				a.sends(c.addr, 600, i)
				require.Equal(t, packet(a.addr, c.addr, 600, i), c.gets())
				a.sends(b.addr, 600, i)
			}
			// Packets of before come first, and then new ones.
			came := 0
			poll(t, "a new packet arrives", func() bool {
				a.sends(b.addr, 601, 77)
				for {
					select {
					case got := <-b.wire.out:
						came++
						if len(got) == len(packet(a.addr, b.addr, 601, 77)) {
							return true
						}
						continue
					default:
						return false
					}
				}
			})
			require.Greater(t, came, 1024)
		})
	}
}

// held returns how much a peer holds.
func (in *Interface) held(to netip.Addr) int {
	in.collect()
	p := in.routes.Load().byAddress[to]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func TestAddressIsTaken(t *testing.T) {
	a := start(t, serve(t), "10.1.0.1")
	c, err := nicless.Dial(a.socket)
	require.NoError(t, err)
	defer c.Close()
	a.until("it has announced itself", func(Stats) bool {
		list, err := c.Announcements()
		return err == nil && len(list) == 1
	})
	_, err = Open(c, newWire(), Config{Addresses: []netip.Addr{a.addr}, Name: "x", MTU: 1500})
	require.ErrorContains(t, err, "address 10.1.0.1 is taken: interface test1 of engine")
	require.ErrorIs(t, err, ErrTaken)
	_, err = Open(c, newWire(), Config{Name: "x", MTU: 1500})
	require.ErrorContains(t, err, "0 addresses; 1 to 4 are possible")
}

// An interface ends with its engine, and says so.
func TestEngineEnds(t *testing.T) {
	socket, stop := serveUntil(t)
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	defer c.Close()
	in, err := Open(c, newWire(), Config{Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}, Name: "x", MTU: 1500})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- in.Run(context.Background()) }()
	stop()
	require.ErrorIs(t, <-done, nicless.ErrDeviceGone)
}
