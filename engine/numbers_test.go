package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// No number is given out twice while 20,000 queue pairs are made and destroyed. Random
// numbers would come twice about a dozen times.
func TestNumbersAreNotReusedSoon(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 4})
	seen := map[uint32]bool{}
	for range 20_000 {
		p := h.bare(c)
		require.False(t, seen[p.QPN], "QP number %#06x a second time", p.QPN)
		seen[p.QPN] = true
		h.call(control.OpDestroyQP, &p, &control.Empty{})
	}
}

// bare makes a queue pair that never works.
func (h *host) bare(c *poller) (ans control.QPN) {
	h.Helper()
	h.call(control.OpCreateQP, &control.QP{PDN: h.pd, SendCQN: c.num, RecvCQN: c.num, NoReceive: 1, SQ: h.base, DBRec: h.base}, &ans)
	return ans
}

// BenchmarkCreateQP makes and destroys a queue pair.
func BenchmarkCreateQP(b *testing.B) {
	r := newRig(b, Config{})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 4})
	b.ReportAllocs()
	for b.Loop() {
		p := h.bare(c)
		h.call(control.OpDestroyQP, &p, &control.Empty{})
	}
}
