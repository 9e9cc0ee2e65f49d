package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// If the peer goes in the middle of a transfer, the shard that goes on with the transfer does not hold the
// lock of the peer's shard any more. So it does not look at the peer's key.
func TestPeersKeyIsLeftAloneWhenItGoes(t *testing.T) {
	r := newShards(t, Config{Slice: 64})
	a, b := r.host("a"), r.host("b")
	require.NotEqual(t, a.c.Shard.Number, b.c.Shard.Number)
	p, q := pair(a, b)
	src, dst := a.full(1024, 1), b.full(1024, 99)
	index := p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1024))
	r.pick = func() int { return a.c.Shard.Number }
	for range 4 {
		r.step()
	}
	require.NotNil(t, p.q.Job)
	require.Less(t, p.q.Job.Moved, uint64(1024))
	k := r.e.Keys.Find(dst.key)
	q.destroy()
	b.dereg(b.full(8, 0).key) // a change of some key, so that keys are looked at
	looked := k.Looked
	require.NotEqual(t, r.e.Epoch.Load(), looked)
	r.step()
	require.Nil(t, p.q.Job)
	require.Equal(t, looked, k.Looked, "the peer's key, without its lock")
	r.pick = nil
	r.expire()
	r.failed(p.scq.one(), cqe.TransportRetry, index)
}
