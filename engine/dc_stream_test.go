package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A long transfer that reaches a hole in the sender's memory ends with its WQE, although the queue
// pair goes on. It does not go on by itself when the hole has been filled: its receive has been
// put back by then, and another message has used it.
func TestDCStreamEndsATransfer(t *testing.T) {
	r := newRig(t, Config{Slice: 2048})
	a, b, c := r.host("a"), r.host("b"), r.host("c")
	a.share()
	p, d := a.dci(4), b.dct()
	hole := a.holed()
	far := b.full(len(hole.mem), 7)
	d.s.put(0, far.data(0, len(far.mem)))
	d.s.post(1)
	p.post(wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEAlways, Stream: 1}, d.at(), hole.data(0, len(hole.mem)))
	r.step()
	require.Equal(t, 1, underWay(r.e), "the transfer is a long one")
	r.settle()
	require.Equal(t, cqe.LocalProtection, p.scq.one().Syndrome, "one completion for one WQE")
	require.Zero(t, underWay(r.e))
	require.Equal(t, uint64(p.sent), p.q.SQ.Done, "nothing is executed that was not announced")

	other := c.dci(0)
	other.post(ctrl(wqe.OpSend), d.at(), pattern(100, 3))
	r.settle()
	require.Equal(t, cqe.StatusSuccess, other.scq.one().Status)
	require.Equal(t, other.num, d.cq.one().SrcQP)
	was := append([]byte(nil), far.mem...)
	require.NoError(t, unix.Mprotect(hole.mem[hole.page:2*hole.page], unix.PROT_READ|unix.PROT_WRITE))
	r.settle()
	d.cq.none()
	require.Equal(t, was, far.mem, "the receiver's memory after its receive has completed")
}

// A visit that fails or flushes a WQE of a stream has done something, so that the device does not
// fall asleep before the rest is flushed.
func TestDCStreamFlushIsWork(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, d := a.dci(2), b.dct()
	local, far := a.full(64, 1), b.full(64, 7)
	const n = 6
	for i := range uint32(n) {
		data := local.data(0, 8)
		if i == 0 {
			data.LKey ^= 1
		}
		p.post(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Flags: wqe.CEAlways, Stream: 1}, d.at(), far.raddr(0), data)
	}
	for r.e.Pending(p.q) > 0 {
		done, _ := visitEverything(r.e, true)
		require.Positive(t, done, "the device would sleep with %d blocks announced", r.e.Pending(p.q))
	}
	require.Len(t, p.scq.all(), n)
}
