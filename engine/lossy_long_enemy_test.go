package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Short READs that follow long ones, of which several parts are on the way, do not request more answers at a
// time than the peer allows.
func TestShortReadsFollowLongOnes(t *testing.T) {
	const most = 4
	n, p, q := newLongNetwork(t, 30e6, 0, 1)
	n.queue = 0 // the peer's ring is the queue, so it owes answers for long
	p.q.Attr.MaxRdAtomic, q.q.Attr.MaxDestRdAtomic = most, most
	from, to := q.h.full(writerSize, 7), p.h.full(writerSize, 1)
	post := func(size int) { p.post(ctrl(wqe.OpRDMARead), from.raddr(0), to.data(0, size)) }
	owed := 0
	for range 10 {
		post(writerSize)
		for range most - 1 {
			post(8)
		}
		got := 0
		n.run(10*time.Second, func() bool {
			owed = max(owed, q.q.Wire.In.Fresh)
			for _, w := range p.scq.all() {
				require.Equal(t, unharmed, w.Syndrome, "%d answers owed", owed)
				got++
			}
			return got == most
		})
	}
	require.True(t, p.q.Wire.Out.Long())
	require.Equal(t, most, owed)
}
