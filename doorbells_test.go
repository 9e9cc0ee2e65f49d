package nicless_test

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// doorbellScene returns a queue pair with these doorbells, connected to a peer on the same context, a CQ for
// its sends, and memory.
func doorbellScene(t testing.TB, ctx *nicless.Context, cfg nicless.QPConfig) (*nicless.QP, *nicless.CQ, *nicless.MR) {
	t.Helper()
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(nicless.CQConfig{PollOnly: true, Entries: 256})
	require.NoError(t, err)
	cfg.SendCQ = cq
	qp, err := pd.CreateQP(cfg)
	require.NoError(t, err)
	peer, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(qp, peer, nicless.Connection{}))
	mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(t, err)
	return qp, cq, mr
}

var allDoorbells = []nicless.Doorbells{nicless.DoorbellRecord, nicless.DoorbellRegister, nicless.DoorbellGuarded}

// Sends start in each way, over several laps of the ring, from one poster and from several.
func TestDoorbells(t *testing.T) {
	ctx, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	for _, d := range allDoorbells {
		for _, concurrent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, concurrent %v", d, concurrent), func(t *testing.T) {
				qp, cq, mr := doorbellScene(t, ctx, nicless.QPConfig{Doorbells: d, Concurrent: concurrent, MaxSendWR: 8})
				for i := range 200 {
					data := fmt.Appendf(nil, "%0*d", 8+i%50, i)
					require.NoError(t, qp.PostSend(&nicless.SendWR{ID: uint64(i), Op: nicless.Write, Data: data,
						Flags: nicless.Signaled, RemoteAddr: mr.Addr(), RKey: mr.RKey()}))
					var c [1]nicless.Completion
					for n := 0; n == 0; {
						n, err = cq.Poll(c[:])
						require.NoError(t, err)
					}
					require.NoError(t, c[0].Err())
					require.Equal(t, uint64(i), c[0].ID)
					require.Equal(t, string(data), string(mr.Bytes()[:len(data)]))
				}
				require.NoError(t, qp.Close())
			})
		}
	}
}

// Each queue that starts by its register alone has a register of its own, as long as there are any.
func TestOwnRegisters(t *testing.T) {
	ctx, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(t, err)
	var made []*nicless.QP
	for {
		q, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq, Doorbells: nicless.DoorbellRegister})
		if err != nil {
			require.ErrorContains(t, err, "registers of the context are taken by other queue pairs")
			break
		}
		made = append(made, q)
	}
	require.Len(t, made, 8)
	require.NoError(t, made[3].Close())
	_, err = pd.CreateQP(nicless.QPConfig{SendCQ: cq, BlueFlame: true})
	require.NoError(t, err)

	for _, cfg := range []nicless.QPConfig{{Doorbells: 3}, {Doorbells: nicless.DoorbellGuarded, Managed: true},
		{Doorbells: nicless.DoorbellRegister, BlueFlame: true}} {
		cfg.SendCQ = cq
		_, err := pd.CreateQP(cfg)
		require.ErrorContains(t, err, "Doorbells ")
	}
}
