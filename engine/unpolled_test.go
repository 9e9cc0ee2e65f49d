package engine

import (
	"testing"

	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The device knows whether a client has completions that it has not polled, of its own queue
// pairs only.
func TestUnpolled(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	x := newXRC(a, b)
	uid := x.p.q.Client.UID
	sends := x.p.q.SQ.CQ
	require.False(t, r.d.nic().HasUnpolled(uid, x.p.num))
	x.p.post(ctrl(wqe.OpNop))
	r.settle()
	require.Equal(t, uint64(1), sends.Next)
	require.True(t, r.d.nic().HasUnpolled(uid, x.p.num))
	require.False(t, r.d.nic().HasUnpolled(uid+1, x.p.num), "of another user")
	require.False(t, r.d.nic().HasUnpolled(uid, 0xffffff), "of a queue pair that does not exist")
	require.False(t, r.d.nic().HasUnpolled(uid, x.q.num), "a target has no completion queues")
	sends.Consumer.Publish(1)
	require.False(t, r.d.nic().HasUnpolled(uid, x.p.num))
	sends.Consumer.Publish(7)
	require.False(t, r.d.nic().HasUnpolled(uid, x.p.num), "an index that the client cannot have reached")
}
