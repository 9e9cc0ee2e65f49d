package engine

import (
	"testing"

	"github.com/nicless/nicless/fabric/roce"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The peers of a link over RoCE show what was sent again, and what no answer came to in time. The packets are
// lost because the queue pair at the other end is not ready.
func TestPeersShowLosses(t *testing.T) {
	overCable = func(r *rig) *cable { return r.newRoCE(roce.Config{Threads: 1, Spin: -1}) }
	defer func() { overCable = nil }()
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p := a.qp(control.QP{Type: control.QPTypeRC}, a.cq(control.CQ{LogSize: 8}), a.cq(control.CQ{LogSize: 8}))
	q := b.qp(control.QP{Type: control.QPTypeRC}, b.cq(control.CQ{LogSize: 8}), b.cq(control.CQ{LogSize: 8}))
	p.up(q)
	losses := func(side int) nic.PathCounts {
		peers := r.cable.ends[side].Peers()
		require.Len(t, peers, 1)
		return nic.PathCounts{Resent: peers[0].Stats.Resent, Timeouts: peers[0].Stats.Timeouts}
	}
	require.Zero(t, losses(p.side()))

	from, to := a.full(256, 1), b.full(256, 7)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 256))
	r.until("the packet is dropped", func() bool {
		r.e.Step()
		return r.cable.ports[1-p.side()].Stats().Strangers > 0
	})
	p.scq.none()
	q.up(p)
	p.runOut()
	r.settle()
	p.good()
	r.same(from.mem, to.mem, "the WRITE")
	// On a busy machine the acknowledgement may be late, and the packet is sent once more.
	require.NotZero(t, losses(p.side()).Resent)
	require.NotZero(t, losses(p.side()).Timeouts)
	require.Zero(t, losses(q.side()))

	counts := func() (sum nic.PathCounts) {
		for _, c := range r.cable.ports[p.side()].PathCounts() {
			sum.Resent, sum.Timeouts = sum.Resent+c.Resent, sum.Timeouts+c.Timeouts
		}
		return sum
	}
	all := r.cable.ports[p.side()].Stats()
	require.Equal(t, nic.PathCounts{Resent: all.Resent, Timeouts: all.Timeouts}, counts())
	side, before := p.side(), losses(p.side())
	p.destroy()
	require.Equal(t, before, losses(side), "the counts outlive the queue pair")
}
