//go:build linux && (amd64 || arm64)

package cm

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
)

// A request for a service that is bound but does not listen yet waits, but not for ever.
func TestEarlyRequest(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	late := server.create(abi.CMPSTCP, 101)
	require.Zero(t, server.bind(late, inet("10.0.0.2", 7002)))
	a, b := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7002)), client.resolved(abi.CMPSTCP, 2, inet("10.0.0.2", 7002))
	require.Zero(t, client.connect(a, ""))
	client.quiet()
	r.pass()
	client.expect(rejected, 1, int32(rejService))
	require.Zero(t, client.connect(b, ""))
	require.Zero(t, server.listen(late, 0))
	server.expect(connectRequest, 101, 0)
	r.pass()
	client.quiet()
	client.close()
	server.close()
	r.ends()
}

// A program that listens does not look at the requests for other ports: others choose how many
// there are. A request that is taken back waits no longer.
func TestRequestsForOtherPortsAreNotLookedAt(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	late, other := server.create(abi.CMPSTCP, 101), server.create(abi.CMPSTCP, 102)
	require.Zero(t, server.bind(late, inet("10.0.0.2", 7002)))
	require.Zero(t, server.bind(other, inet("10.0.0.2", 7003)))
	var ids []uint32
	for range 50 {
		i := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7002))
		require.Zero(t, client.connect(i, ""))
		ids = append(ids, i)
	}
	require.Len(t, r.m.waiting, 50)
	server.asked = 0
	require.Zero(t, server.listen(other, 0))
	require.Zero(t, server.asked)
	for n, i := range ids {
		client.destroy(i)
		require.Len(t, r.m.waiting, 49-n)
		require.Len(t, r.timers, 49-n)
	}
	client.close()
	server.close()
	r.ends()
}

// Where a listener has just ended, a request waits for the next one, but not for long.
func TestNextListener(t *testing.T) {
	r := newRig(t)
	client, server, first := r.pair()
	request := func(uid uint64) {
		require.Zero(t, client.connect(client.resolved(abi.CMPSTCP, uid, inet("10.0.0.2", 7000)), ""))
	}
	listens := func(uid uint64) (handle uint32) {
		handle = server.create(abi.CMPSTCP, uid)
		require.Zero(t, server.bind(handle, inet("10.0.0.2", 7000)))
		return handle
	}
	server.destroy(first)
	request(1)
	client.quiet()
	second := listens(102)
	require.Zero(t, server.listen(second, 0))
	server.expect(connectRequest, 102, 0)
	client.quiet()

	server.destroy(second)
	request(2)
	require.Equal(t, afterEnding, r.timers[len(r.timers)-1].d)
	third := listens(103)
	r.timers[len(r.timers)-1].f() // bound: it waits once more
	client.quiet()
	require.Equal(t, patience, r.timers[len(r.timers)-1].d)
	require.Zero(t, server.listen(third, 0))
	server.expect(connectRequest, 103, 0)

	server.destroy(third)
	request(3)
	r.timers[len(r.timers)-1].f()
	client.expect(rejected, 3, int32(rejService))
	r.pass()
	request(4) // the listener has ended long ago
	client.expect(rejected, 4, int32(rejService))

	for range 2 { // a port has one timer, however often its listeners end
		h := listens(104)
		require.Zero(t, server.listen(h, 0))
		server.destroy(h)
	}
	for n := range uint16(maxRecent + 1) { // not more endings are remembered
		h := server.create(abi.CMPSTCP, 5)
		require.Zero(t, server.bind(h, inet("10.0.0.2", 10000+n)))
		require.Zero(t, server.listen(h, 0))
		server.destroy(h)
	}
	require.Equal(t, []int{maxRecent, maxRecent}, []int{len(r.m.recent), len(r.timers)})
	client.close()
	server.close()
	r.ends()
}

// The backlog is how many requests may wait to be read; a listener that ends rejects them.
func TestBacklog(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	l := server.create(abi.CMPSTCP, 101)
	require.Zero(t, server.bind(l, inet("10.0.0.2", 7003)))
	require.Zero(t, server.listen(l, 2))
	connect := func(uid uint64) uint32 {
		h := client.resolved(abi.CMPSTCP, uid, inet("10.0.0.2", 7003))
		require.Zero(t, client.connect(h, ""))
		return h
	}
	connect(1)
	connect(2)
	connect(3)
	client.expect(rejected, 3, int32(rejConsumer))
	first := idOf(server.expect(connectRequest, 101, 0))
	connect(4)
	client.quiet()
	require.Equal(t, uint32(1), server.destroy(l))
	client.expect(rejected, 2, int32(rejConsumer))
	client.expect(rejected, 4, int32(rejConsumer))
	client.quiet()
	server.quiet()
	require.Zero(t, server.accept(first, 9, params(1, "")))
	client.expect(connectResponse, 1, 0)
	client.close()
	server.expect(rejected, 9, int32(rejConsumer))
	server.close()
	r.ends()
}
