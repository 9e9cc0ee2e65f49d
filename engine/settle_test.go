package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Inline data is moved in two slices. Its second slice is not taken from a WQE of another
// queue that was executed in between.
func TestInlineAcrossSlices(t *testing.T) {
	r := newRig(t, Config{Slice: 64})
	a, b := r.host("a"), r.host("b")
	p, q := pair(a, b)
	s, u := pair(a, b)
	target, other := b.full(256, 1), b.full(256, 2)

	long := pattern(100, 3)
	p.post(ctrl(wqe.OpRDMAWrite), target.raddr(0), long)
	s.post(ctrl(wqe.OpRDMAWrite), other.raddr(0), pattern(100, 77))
	r.e.Step() // moves the first 64 bytes of each
	require.NotNil(t, p.q.Job)
	require.NotNil(t, s.q.Job)
	r.settle()

	require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
	require.Equal(t, cqe.StatusSuccess, s.scq.one().Status)
	r.same(long, target.mem[:100], "inline data")
	r.same(pattern(100, 77), other.mem[:100], "the other's")
	_, _ = q, u
}
