//go:build linux && (amd64 || arm64)

package roce

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stopped gives a carrier a port without starting its loops: the test calls their steps.
func stopped(t testing.TB, h *host) {
	t.Helper()
	var p nic.Port = enginePort{h}
	h.engine.Store(&p)
}

// Neither sending nor receiving allocates memory, whatever the length of the packets.
func TestNoAllocation(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	a, b := newHost(t, Config{}), newHost(t, Config{})
	stopped(t, a)
	stopped(t, b)
	require.NoError(t, a.AddAddress(addr[0]))
	require.NoError(t, b.AddAddress(addr[1]))
	path, err := a.Hold(addressOf(addr[1], 0x20, 5))
	require.NoError(t, err)
	b.to(addr[1], addr[0])
	heads := [][]byte{head(writeMiddle, 1), head(writeOnly, 2), head(udSend, 3), head(acknowledge, 4)}
	sizes := []int{1024, 4096, 33, 0}
	payload := content(4096, 1)
	var p packetring.Packet
	packets, taken := 0, 0
	round := func() {
		for i := range 20 {
			k := i / 5
			h, b, _ := a.port.Send.Reserve(len(heads[k]), sizes[k])
			copy(h, heads[k])
			copy(b, payload)
			a.port.Send.Publish(path.Number)
			packets++
		}
		for a.sender.ready() {
			a.sender.step()
		}
		b.receiver.step()
		for {
			if ok, _ := b.port.Receive.Next(&p); !ok {
				break
			}
			taken++
		}
		b.port.Receive.Free()
	}
	assert.Zero(t, testing.AllocsPerRun(200, round))
	assert.Equal(t, packets, taken)
	assert.NotZero(t, b.Stats().Received.Joined)
}

// A message that the kernel does not cut is sent again as single datagrams, which are sealed
// anew, and from then on all are single. EIO is the error of a device without checksums.
func TestNoSegmentation(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EIO, unix.EINVAL} {
		addr := freeport.Loopback(t, 2)
		a, b := newHost(t, Config{}), startHost(t, Config{}, addr[1])
		stopped(t, a)
		require.NoError(t, a.AddAddress(addr[0]))
		b.to(addr[1], addr[0])
		path := a.to(addr[0], addr[1])
		s := a.sender
		for round := range uint32(maxRefused) {
			for i := range uint32(10) {
				a.send(path.Number, head(writeMiddle, i), content(100, i))
			}
			s.take()
			require.Equal(t, 10, s.n)
			s.now, s.single = time.Now(), false
			s.make(0)
			if errno == unix.EIO && round > 0 {
				require.Equal(t, 10, s.made)
			} else {
				require.Equal(t, 1, s.made)
				s.trouble(errno)
			}
			require.Equal(t, 10, s.made)
			require.True(t, s.flush())
			s.ring.Free()
			s.n = 0
			for i := range uint32(10) {
				require.Equal(t, content(100, i), b.next().payload)
			}
		}
		require.Zero(t, b.Stats().Received.Weak, "identification 0")
		require.False(t, a.Addresses()[0].Segments)
		require.NoError(t, b.Close())
	}
}

// No wake-up is lost: each packet is sent while the carrier may be about to sleep, and the next one
// only after it has arrived.
func TestNoLostWake(t *testing.T) {
	for _, cfg := range []Config{{Spin: -1, Threads: 1}, {Spin: -1, Threads: 2}, {Spin: 5 * time.Microsecond, Threads: 1}} {
		addr := freeport.Loopback(t, 2)
		a, b := startHost(t, cfg, addr[0]), startHost(t, cfg, addr[1])
		path := a.to(addr[0], addr[1])
		b.to(addr[1], addr[0])
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range uint32(1500) {
			a.send(path.Number, head(writeOnly, i), nil)
			require.Equal(t, head(writeOnly, i), b.next().head)
			for range rng.IntN(300) {
				runtime.KeepAlive(i)
			}
		}
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
}

// Packets of the engine that cannot be sent are counted, and the others go on.
func TestImpossiblePackets(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	a, b := startHost(t, Config{}, addr[0]), startHost(t, Config{}, addr[1])
	b.to(addr[1], addr[0])
	path := a.to(addr[0], addr[1])
	a.send(path.Number, head(writeOnly, 1)[:8], nil)
	a.send(path.Number, head(writeMiddle, 1), make([]byte, maxMTU+4))
	a.send(path.Number, head(writeOnly, 2), nil)
	require.Equal(t, head(writeOnly, 2), b.next().head)
	require.Equal(t, uint64(2), a.Stats().Sent.Impossible)
}

// A wait after a long one gives up its P, and ends as any other. After a short one, waits keep it.
func TestWaitsAfterALongOne(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	w, err := newWaiter()
	require.NoError(t, err)
	defer w.close()
	require.False(t, w.long, "before the first wait")
	for !w.long { // a signal of the runtime ends a wait, too
		w.wakeAfter(2 * longWait)
		w.wait()
	}
	for w.long { // a machine that is busy may make any wait long
		w.signal()
		w.wait()
	}
}
