package nicless

import (
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
)

// Of WRITEs that are announced together, the completions of a Compressed queue are in
// sessions. Those of another queue are ordinary entries.
func TestCompressedEntries(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		ctx, err := Open(Config{})
		require.NoError(t, err)
		defer ctx.Close()
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		mr, err := pd.RegisterMemory(4096, FullAccess)
		require.NoError(t, err)
		cq, err := ctx.CreateCQ(CQConfig{Entries: 64, Compressed: compressed})
		require.NoError(t, err)
		qp, err := pd.CreateQP(QPConfig{SendCQ: cq})
		require.NoError(t, err)
		peer, err := pd.CreateQP(QPConfig{SendCQ: cq})
		require.NoError(t, err)
		require.NoError(t, Pair(qp, peer, Connection{}))
		list := make([]SendWR, 16)
		for i := range list {
			list[i] = SendWR{ID: uint64(i), Op: Write, Data: []byte{1}, Flags: Signaled, RemoteAddr: mr.Addr(), RKey: mr.RKey()}
		}
		_, err = qp.PostSendList(list)
		require.NoError(t, err)
		await.Until(t, "16 completions are written", func() bool { s, err := ctx.Status(); return err == nil && s.CQEs == 16 })
		titles := 0
		for slot := range 64 {
			if o := cqe.OpOwn(cq.buf.mem[slot*64+63]); o < 0xf0 && o.Format() == cqe.FormatCompressed {
				titles++
			}
		}
		require.Equal(t, compressed, titles > 0, "%d titles", titles)
		var c [32]Completion
		n, err := cq.Poll(c[:])
		require.NoError(t, err)
		require.Equal(t, 16, n)
	}
}
