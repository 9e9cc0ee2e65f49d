//go:build linux && (amd64 || arm64)

package roce

import (
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// A look that the engine requests is complete when the receiver has emptied the sockets of known addresses
// and put all packets into the ring.
func TestLookIsComplete(t *testing.T) {
	addr := freeport.Loopback(t, 3)
	a, b, other := newHost(t, Config{}), newHost(t, Config{}), newHost(t, Config{})
	for i, h := range []*host{a, b, other} {
		stopped(t, h)
		require.NoError(t, h.AddAddress(addr[i]))
	}
	path, stranger := a.to(addr[0], addr[1]), other.to(addr[2], addr[1])
	b.to(addr[1], addr[0])
	send := func(h *host, path uint32, n int) {
		for i := range uint32(n) {
			require.True(t, h.put(path, head(writeOnly, i), nil))
		}
		for h.sender.ready() {
			h.sender.step()
		}
	}
	const packets = 3 * stepShare
	send(a, path.Number, packets)
	require.False(t, b.requestLook(1), "the receiver has not run")
	got, steps := 0, 0
	for !b.requestLook(1) {
		b.receiver.step()
		steps++
		require.Less(t, steps, 1000)
		require.Equal(t, b.requestLook(1), b.requestLook(1) && b.receiver.ring.Sent() == packets)
	}
	for {
		if _, ok := b.took(); !ok {
			break
		}
		got++
	}
	require.Equal(t, packets, got)
	require.Greater(t, steps, 1)

	if (*b.locals.Load())[0].group.strangers < 0 {
		t.Skip("strangers have no socket of their own")
	}
	for round := range uint32(2 * strangersTurn) {
		send(other, stranger.Number, 1)
		require.False(t, b.requestLook(2+round))
		b.receiver.step()
		require.True(t, b.requestLook(2+round), "packets of strangers do not delay it")
	}
}

// A receiver that sleeps looks when the engine requests it.
func TestLookWakes(t *testing.T) {
	for _, threads := range []int{1, 2} {
		addr := freeport.Loopback(t, 1)
		h := startHost(t, Config{Spin: -1, Threads: threads}, addr[0])
		for n := uint32(1); n <= 200; n++ {
			h.requestLook(n)
			await.Until(t, "the receiver looks", func() bool { return h.requestLook(n) })
		}
	}
}

// Time in which this end did not run is no silence of the peer.
func TestStopIsNoSilence(t *testing.T) {
	for _, stops := range []bool{false, true} {
		r, a, _, at := two(t)
		a.to(at[0], at[1])
		r.look()
		r.settle()
		r.pass(2 * lookRemotes)
		s := r.session(at[0], at[1])
		s.remote.sent.Add(1)
		r.pass(2 * lookRemotes)
		require.False(t, s.remote.p.silentSince.IsZero())
		begun := a.Stats().Auth.Begun
		if stops {
			r.now = r.now.Add(2 * mostSilence)
		} else {
			r.pass(2 * mostSilence)
		}
		s.remote.sent.Add(1) // when it runs again
		r.now = r.now.Add(lookRemotes)
		r.look()
		require.Equal(t, !stops, a.Stats().Auth.Begun > begun)
	}
}
