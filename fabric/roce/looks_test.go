//go:build linux && (amd64 || arm64)

package roce

import (
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

	l := (*b.locals.Load())[0]
	if l.group.strangers < 0 {
		t.Skip("strangers have no socket of their own")
	}
	fromOther := func(look uint32, n int) {
		for range n {
			require.True(t, other.put(stranger.Number, head(packet.MakeOpcode(packet.UD, packet.SendOnly), 0), nil))
		}
		for other.sender.ready() {
			other.sender.step()
		}
		await.Until(t, "the stranger's packets arrive", func() bool {
			n, _, err := unix.Recvfrom(l.group.strangers, make([]byte, 1<<16), unix.MSG_DONTWAIT|unix.MSG_PEEK)
			return err == nil && n > 0
		})
		require.False(t, b.requestLook(look))
		b.receiver.step()
		require.True(t, b.requestLook(look), "packets of strangers do not delay it")
	}
	for round := range uint32(2 * strangersTurn) {
		fromOther(2+round, 1)
	}
	b.receiver.steps = 0        // known addresses come first
	fromOther(100, 8*stepShare) // more than a step checks
}

// With many local addresses a look asks epoll which sockets have packets. It is complete when all were found,
// also if those of strangers take all places of an answer of epoll.
func TestLookAtManyAddresses(t *testing.T) {
	a, b, other := newHost(t, Config{}), newHost(t, Config{}), newHost(t, Config{})
	places := len(b.receiveWaiter.events)
	require.Greater(t, places, mostPolled)
	addr := freeport.Loopback(t, places+3)
	for i, at := range addr {
		h := []*host{a, other, b}[min(i, 2)]
		stopped(t, h)
		require.NoError(t, h.AddAddress(at))
	}
	locals := *b.locals.Load()
	require.Len(t, locals, places+1)
	send := func(from *host, to *local, fd int) {
		at, psn := addr[0], fromKnown
		if from == other {
			at, psn = addr[1], fromStranger
		}
		require.True(t, from.put(from.to(at, to.addr).Number, head(packet.MakeOpcode(packet.UD, packet.SendOnly), uint32(psn)), nil))
		for from.sender.ready() {
			from.sender.step()
		}
		await.Until(t, "the packet arrives", func() bool {
			n, _, err := unix.Recvfrom(fd, make([]byte, 1<<16), unix.MSG_DONTWAIT|unix.MSG_PEEK)
			return err == nil && n > 0
		})
	}
	look := func(number uint32, packets int) {
		for steps := 0; !b.requestLook(number); steps++ {
			require.Less(t, steps, 1000)
			b.receiver.step()
		}
		known := 0
		for r, ok := b.took(); ok; r, ok = b.took() {
			if r.head[packet.BTHSize-1] == byte(fromKnown) {
				known++
			}
		}
		require.Equal(t, packets, known, "those of known addresses are in the ring")
	}
	for _, l := range locals {
		b.to(l.addr, addr[0])
	}
	for _, l := range locals {
		send(a, l, l.receiver)
	}
	look(1, len(locals))
	if locals[0].group.strangers < 0 {
		t.Skip("strangers have no socket of their own")
	}
	for _, l := range locals[:places] {
		send(other, l, l.group.strangers)
	}
	send(a, locals[places], locals[places].receiver)
	b.receiver.steps = 0 // known addresses come first
	look(2, 1)
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

// A look that is requested when the receiver is about to sleep, and no sleep can be ended, is not missed.
func TestLookBeforeSleep(t *testing.T) {
	h := newHost(t, Config{})
	stopped(t, h)
	require.False(t, h.requestLook(1))
	var awake atomic.Bool
	go func() {
		h.receiveWaiter.sleep(h.Carrier, nil)
		awake.Store(true)
	}()
	t.Cleanup(h.receiveWaiter.signal)
	await.Until(t, "the receiver does not sleep", awake.Load)
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
