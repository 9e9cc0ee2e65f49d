package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// While cqsCompressed is true, hosts ask for compression for every CQ of 64-byte entries that can
// have it, with minis of format cqsFormat.
var (
	cqsCompressed bool
	cqsFormat     uint8
)

// expandSession expands the session whose title is the CQE number i, if that is a title. It writes
// each completion into the entry that it would have without compression, as hostpath.CQ does.
func (c *poller) expandSession(i uint64) {
	c.h.Helper()
	own := cqe.OpOwn(c.block(i).ObserveTail())
	if own.Format() != cqe.FormatCompressed {
		return
	}
	require.True(c.h, c.compressed, "a session in a queue that does not ask for it")
	x, err := cqe.Expand((*[cqe.Size]byte)(c.block(i)), i, c.log, c.format)
	require.NoError(c.h, err)
	n := x.Left()
	require.Greater(c.h, n, 1, "a session of one completion")
	c.sessions = append(c.sessions, n)
	var minis [cqe.Size]byte
	for k := range n {
		slots, at := cqe.MiniPlace(k)
		if at == 0 {
			minis = *c.block(i + uint64(slots))
		}
		e, _ := x.Next(cqe.ParseMini((*[cqe.MiniSize]byte)(minis[at*cqe.MiniSize:])))
		e.Put((*[cqe.Size]byte)(c.block(i + uint64(k))))
	}
}

// expandSessions expands what has been written and not been polled.
func (c *poller) expandSessions() {
	for i := c.ci; i < c.ci+1<<c.log; i++ {
		if !cqe.Valid(cqe.OpOwn(c.block(i).ObserveTail()), i, c.log) {
			return
		}
		c.expandSession(i)
	}
}
