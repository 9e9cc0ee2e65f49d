package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A port on which nothing has come or gone for long is polled in some steps only, and before the shard
// waits. A packet that comes or goes makes it hot again.
func TestColdPorts(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r, p, q := duo(t, Config{})
	from, to := p.h.full(64, 1), q.h.full(64, 7)
	ports := r.cable.ports
	cool := func() {
		r.settle()
		require.Equal(t, 2, r.e.hotPorts)
		for range mostIdleVisits {
			r.e.Step()
		}
		require.Zero(t, r.e.hotPorts)
		for range 2 * hintTurns { // polls of a cold port change nothing
			r.e.Step()
		}
		require.Zero(t, r.e.hotPorts)
	}
	hot := func() []bool { return []bool{ports[0].hot, ports[1].hot} }
	cool()
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	for range hintTurns + 2 {
		r.e.Step()
	}
	p.good()
	require.Equal(t, []bool{true, true}, hot())

	cool()
	for r.e.sched.turn%hintTurns != 1 {
		r.e.Step()
	}
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	r.e.Step()
	require.Equal(t, []bool{p.side() == 0, p.side() == 1}, hot(), "the sender's port")
	require.Equal(t, 1, r.e.hotPorts)
	require.NotZero(t, r.e.patrolMany(), "before it waits, the shard looks at all ports")
	r.e.Step()
	p.good()

	cool()
	ports[0].SetUp(false)
	require.Zero(t, r.e.hotPorts)
	ports[0].SetUp(true)
	require.Equal(t, []bool{true, false}, hot())
	require.NoError(t, ports[0].Close())
	require.Zero(t, r.e.hotPorts)
}
