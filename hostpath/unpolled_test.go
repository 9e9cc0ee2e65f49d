package hostpath

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Completions that nobody has polled are seen without being taken, over three laps of the ring of 16 entries.
func TestUnpolled(t *testing.T) {
	b := newBench(t, 8, nil)
	require.Empty(t, b.cq.Unpolled())
	var taken [1]Completion
	for i := range uint16(3 * 16) {
		b.dev.recv(i, 5)
		list := b.cq.Unpolled()
		require.Len(t, list, 1)
		require.Equal(t, []any{i, uint32(benchQPN), false, cqe.Syndrome(0)},
			[]any{list[0].Tail.Counter(), list[0].Tail.QPN(), list[0].Failed(), list[0].Syndrome})
		require.Equal(t, list, b.cq.Unpolled(), "nothing was taken")
		b.cq.Poll(taken[:])
		require.Empty(t, b.cq.Unpolled())
	}
}

// A full ring of errors, each with its syndrome.
func TestUnpolledErrors(t *testing.T) {
	b := newBench(t, 8, nil)
	syndromes := []cqe.Syndrome{cqe.RemoteAccess, cqe.Flush}
	for i := range uint16(16) {
		var e [64]byte
		cqe.PutErr(&e, benchQPN, b.index, uint8(wqe.OpSend), i, syndromes[i%2], 0x88, cqe.MakeOpOwn(cqe.ReqErr, cqe.FormatPlain, false, cqe.Owner(b.dev.pi, b.dev.log)))
		b.dev.write(&e)
	}
	list := b.cq.Unpolled()
	require.Len(t, list, 16)
	for i, u := range list {
		require.Equal(t, []any{uint16(i), true, syndromes[i%2]}, []any{u.Tail.Counter(), u.Failed(), u.Syndrome})
	}
}

// The entries of a compressed or collapsed queue do not show what was polled.
func TestUnpolledOfOtherQueues(t *testing.T) {
	b := newBench(t, 8, nil)
	b.dev.recv(0, 5)
	b.cq.collapsed = true
	require.Empty(t, b.cq.Unpolled())
	b.cq.collapsed, b.cq.compressed = false, true
	require.Empty(t, b.cq.Unpolled())
}
