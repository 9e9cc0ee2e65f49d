package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A port on which no packet has come or gone for long is polled in some steps only, and before the
// shard waits. A packet that comes or goes makes it hot again.
func TestColdPorts(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	r, p, q := duo(t, Config{})
	from, to := p.h.full(64, 1), q.h.full(64, 7)
	ports := r.cable.ports
	cool := func() {
		r.settle()
		require.Equal(t, 2, r.e.HotPorts)
		for range object.MostIdleVisits {
			r.e.Step()
		}
		require.Zero(t, r.e.HotPorts)
		for range 2 * completion.ArmRoundSteps { // polls of a cold port change nothing
			r.e.Step()
		}
		require.Zero(t, r.e.HotPorts)
	}
	hot := func() []bool { return []bool{ports[0].Hot, ports[1].Hot} }
	cool()
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	for range completion.ArmRoundSteps + 2 {
		r.e.Step()
	}
	p.good()
	require.Equal(t, []bool{true, true}, hot())

	cool()
	for r.e.Sched.Turn%completion.ArmRoundSteps != 1 {
		r.e.Step()
	}
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	r.e.Step()
	require.Equal(t, []bool{p.side() == 0, p.side() == 1}, hot(), "the sender's port")
	require.Equal(t, 1, r.e.HotPorts)
	require.NotZero(t, r.e.PatrolMany(), "before it waits, the shard looks at all ports")
	r.e.Step()
	p.good()

	cool()
	ports[0].SetUp(false)
	require.Zero(t, r.e.HotPorts)
	ports[0].SetUp(true)
	require.Equal(t, []bool{true, false}, hot())
	require.NoError(t, ports[0].Close())
	require.Zero(t, r.e.HotPorts)
}
