package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// couple returns two nodes whose link is up.
func couple(t *testing.T, w *world) (a, b *node) {
	t.Helper()
	a = w.mustStart(Config{Node: 0})
	b = w.mustStart(Config{Node: 1})
	w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "both ends are up")
	return a, b
}

// works checks that packets travel between two nodes in both directions.
func works(t *testing.T, w *world, a, b *node) {
	t.Helper()
	pa, pb := a.open()[0], b.open()[0]
	ga, gb := pa.got, pb.got
	w.until(time.Second, func() bool { return pa.got > ga+10 && pb.got > gb+10 }, "packets arrive")
	require.Empty(t, w.problems())
}

// Two nodes that join a pool of garbage find each other, and their engines exchange packets.
func TestTwoNodesMeet(t *testing.T) {
	for name, w := range map[string]*world{"coherent": newWorld(t, 1), "incoherent": newIncoherentWorld(t, 1)} {
		t.Run(name, func(t *testing.T) {
			a, b := couple(t, w)
			works(t, w, a, b)

			for _, to := range []nic.Address{{GUID: b.guid}, {GID: [16]byte{15: 2}}, {LID: 101}} {
				path, ok := a.pool.Route(to)
				require.True(t, ok, "%+v", to)
				require.Equal(t, a.open()[0], path.Port)
				require.Equal(t, a.pool.header.mtu, path.MTU)
			}
			for _, to := range []nic.Address{{}, {GUID: a.guid}, {GID: [16]byte{15: 1}}, {LID: 100}, {GUID: 1, LID: 101}, {GID: [16]byte{1}, LID: 101}} {
				_, ok := a.pool.Route(to)
				require.False(t, ok, "%+v", to)
			}

			port := fabric.Port{Engine: b.guid, Name: "node 1", Up: true, GID: [16]byte{15: 2}, LID: 101}
			require.Equal(t, []fabric.Port{port}, a.pool.Ports())

			peers := a.pool.Peers()
			require.Len(t, peers, 1, "those that were seen")
			require.Equal(t, "node 1", peers[0].Name)
			require.Equal(t, b.guid, peers[0].GUID)
			require.True(t, peers[0].Up)
			require.NotZero(t, peers[0].Stats.Received)
			require.Len(t, a.open(), 1, "there is no port for a node that is not there")

			require.NoError(t, b.pool.SetAddresses([]Address{{GID: [16]byte{0: 9}}}))
			w.pass(2 * tick)
			_, ok := a.pool.Route(nic.Address{GID: [16]byte{0: 9}})
			require.True(t, ok, "a new address")
			_, ok = a.pool.Route(nic.Address{LID: 101})
			require.False(t, ok, "the old one")
			require.Empty(t, a.pool.Ports(), "it has no LID")
			require.Error(t, b.pool.SetAddresses(make([]Address, MaxAddresses+1)))

			w.kill(b)
			require.NoError(t, b.pool.Close())
			w.pass(tick)
			require.False(t, a.up(1))
			require.Equal(t, "node 1 has left the pool", a.pool.Peers()[0].Why)
			require.True(t, b.ports[0].closed)
			require.False(t, a.open()[0].up)
		})
	}
}

// soonDead is Config.Dead of nodes in tests that set no other.
const soonDead = 500 * time.Millisecond

// A node that dies is found dead within Config.Dead and two ticks.
func TestDeadNode(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	w.kill(b)
	w.pass(soonDead - tick)
	require.True(t, a.up(1), "not too soon")
	w.pass(3 * tick)
	require.False(t, a.up(1))
	require.Equal(t, "node 1 gives no sign of life: its heartbeat stands still", a.pool.Peers()[0].Why)
	require.False(t, a.open()[0].up)
	_, ok := a.pool.Route(nic.Address{GUID: b.guid})
	require.True(t, ok, "its address is known still")
}

// If a process only stood still, the link comes up again: same port, new rings.
func TestPause(t *testing.T) {
	for name, w := range map[string]*world{"coherent": newWorld(t, 1), "incoherent": newIncoherentWorld(t, 1)} {
		t.Run(name, func(t *testing.T) {
			a, b := couple(t, w)
			works(t, w, a, b)
			for range 3 {
				b.paused = true
				w.until(time.Second, func() bool { return !a.up(1) }, "the link is down")
				b.paused = false
				w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "it is up again")
				works(t, w, a, b)
			}
			require.Len(t, a.ports, 1)
			require.Len(t, b.ports, 1)
			require.EqualValues(t, 4, a.ports[0].run)
		})
	}
}

// A node that was killed and is started again has other queue pairs, so the ports of the others
// are closed.
func TestRestart(t *testing.T) {
	for name, w := range map[string]*world{"coherent": newWorld(t, 1), "incoherent": newIncoherentWorld(t, 1)} {
		t.Run(name, func(t *testing.T) {
			a, b := couple(t, w)
			for i := range 3 {
				works(t, w, a, b)
				w.kill(b)
				w.pass(time.Duration(i) * 300 * time.Millisecond)
				b = w.mustStart(Config{Node: 1})
				w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "the link is up again")
				require.Len(t, a.ports, i+2)
				require.Len(t, a.open(), 1)
			}
			works(t, w, a, b)
			w.kill(a) // node 0: the others need it only to format
			c := w.mustStart(Config{Node: 2})
			w.until(time.Second, func() bool { return c.up(1) && b.up(2) }, "a third node meets the second")
			a = w.mustStart(Config{Node: 0})
			w.until(time.Second, func() bool { return a.up(1) && a.up(2) }, "node 0 is back")
			assert.True(t, c.up(1), "which disturbs nobody")
			assert.EqualValues(t, 1, c.open()[0].run)
			w.pass(time.Second)
			require.Empty(t, w.problems())
		})
	}
}

// After garbage in a ring, the port is closed and the link rests, and then has a new one.
func TestGarbageInRing(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	works(t, w, a, b)
	spoil := func() {
		ring := w.heap.Bytes()[b.ringAt(0):]
		sent := b.open()[0].cfg.Send.Sent()
		be.PutUint64(ring[int(sent)%b.link(0).pair.growth.ring.Slots*128:], uint64(uint32(sent+1))<<32|255<<16)
	}
	b.paused = true
	spoil()
	a.loops()
	require.Len(t, a.ports[0].problems, 1)
	b.paused = false
	w.pass(2 * tick)
	require.Contains(t, a.pool.Peers()[0].Why, "node 1 has written garbage into its ring: packetring: corrupt slot: headers of 255 bytes")
	require.False(t, b.up(0))
	w.pass(firstRest / 2)
	require.Empty(t, a.open(), "it rests")
	a.ports[0].problems = nil
	w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "it is up again")
	works(t, w, a, b)
}
