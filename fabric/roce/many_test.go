//go:build linux && (amd64 || arm64)

package roce

import (
	"net/netip"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/freeport"
)

// mostOfPeer is how many bytes of memory a peer may take: a path, its places in the tables, and what reports
// of it need.
const mostOfPeer = 2 << 10

// An engine exchanges packets with 1,000 others from the sockets of its one address, however many there are.
// Each takes some memory, and nothing else: no step of a loop and no look at the devices touches the table of
// the paths while no packet comes or goes.
func TestManyPeers(t *testing.T) {
	const net = 250
	peers := explore.Rounds(net, 4*net)
	near := newHost(t, Config{Threads: 1})
	stopped(t, near)
	own := freeport.Loopback(t, 1)[0]
	require.NoError(t, near.AddAddress(own))
	var there []netip.Addr
	for len(there) < peers {
		there = append(there, freeport.Loopback(t, net)...)
	}
	sockets, before := openSockets(t), heapUsed()
	numbers := make([]uint32, peers)
	for i, a := range there {
		numbers[i] = near.to(own, a).Number
	}
	perPeer := (heapUsed() - before) / int64(peers)
	require.Less(t, perPeer, int64(mostOfPeer))
	require.Equal(t, sockets, openSockets(t), "%d peers took no socket", peers)

	far := startHost(t, Config{SourcePorts: 1}) // not before: its loops take memory when they get a core
	for _, a := range there {
		s, err := OpenSockets(a, 1)
		require.NoError(t, err)
		closeAll(s.Group) // strangers have no socket of their own: there are few descriptors
		s.Group = nil
		require.NoError(t, far.AddSockets(s))
		far.to(a, own)
	}
	sockets = openSockets(t)
	for i, n := range numbers {
		sent := content(100+i%900, n)
		near.send(n, head(writeOnly, n), sent)
		near.sender.step()
		got := far.next()
		require.Equal(t, sent, got.payload)
		require.NotNil(t, far.paths.find(got.path))
		back := content(200+i%800, n+1)
		far.send(got.path, head(writeOnly, n+1), back)
		answer := near.comes(func() { near.receiver.step() })
		require.Equal(t, n, answer.path, "the path of peer %d", i)
		require.Equal(t, back, answer.payload)
	}
	require.Equal(t, sockets, openSockets(t), "%d peers and their packets took no socket", peers)
	require.Equal(t, peers, near.Stats().Paths)
	require.Zero(t, near.Stats().Received.Strangers)
	t.Logf("%d peers: %d bytes of memory each", peers, perPeer)

	require.Zero(t, near.idleWithoutTable(), "work of idle steps")
}

// idleWithoutTable returns what idleSteps does, while whatever touches the table of paths does not come back.
func (h *host) idleWithoutTable() int {
	h.t.Helper()
	idle := make(chan int, 1)
	h.paths.mu.Lock()
	defer h.paths.mu.Unlock() // also if the test fails, which closes the carrier
	go func() { idle <- h.idleSteps() }()
	return await.Receive(h.t, "idle steps end, without the table", idle)
}

// idleSteps does what the loops of a carrier do that has nothing to do, many times, and returns how much work
// they report.
func (h *host) idleSteps() (work int) {
	var floods floodWatch
	var neighbours neighbourWatch
	for range 1000 {
		did, _ := h.sender.step()
		more, _ := h.receiver.step()
		work += did + more
	}
	for range 10 {
		for _, l := range *h.locals.Load() {
			h.look(l)
			l.probe(h.Carrier)
		}
		neighbours.look(h.Carrier, time.Now(), (*neighbourTable).full)
		floods.look(h.Carrier, time.Now(), h.droppedSoFar(), h.receiver.limits.sources.take)
		h.mu.Lock()
		h.updateUp()
		h.mu.Unlock()
	}
	return work
}

// openSockets returns how many sockets of IP this process has. A look at the devices has another kind for a
// moment.
func openSockets(t *testing.T) (n int) {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, f := range list {
		fd, err := strconv.Atoi(filepath.Base(f))
		require.NoError(t, err)
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err == nil && (domain == unix.AF_INET || domain == unix.AF_INET6) {
			n++
		}
	}
	return n
}

func heapUsed() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
