package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A short WRITE whose completion finds no room is the last WRITE that its queue executes. The
// WRITEs that were announced with it do not move bytes.
func TestShortWriteThatOverruns(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c, d := a.cq(control.CQ{}), a.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, d), a.qp(control.QP{}, d, d)
	p.up(q)
	q.up(p)
	src, dst := a.full(64, 1), a.full(64, 2)
	was := append([]byte(nil), dst.mem...)
	for i := range 5 {
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(8*i), src.data(8*i, 8))
	}
	p.ring()
	r.settle()
	require.Equal(t, control.StateERR, p.state())
	r.same(src.mem[:16], dst.mem[:16], "the one that completed and the one that did not")
	r.same(was[16:], dst.mem[16:], "what was announced behind them")
	require.Equal(t, cqe.StatusSuccess, c.one().Status)
}
