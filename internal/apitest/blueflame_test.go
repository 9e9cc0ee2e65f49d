package apitest

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// Queue pairs with BlueFlame give the same results as those without, for any mixture of posts.
func TestBlueFlame(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{Entries: 256}, nicless.QPConfig{MaxSendWR: 64, BlueFlame: true})
		next := uint64(0)
		wr := func() nicless.SendWR {
			next++
			data := []byte(fmt.Sprintf("%08d", next))
			if next%7 == 0 {
				data = append(data, make([]byte, 40)...) // this makes a WQE of two blocks
			}
			return nicless.SendWR{ID: next, Op: nicless.Write, Flags: nicless.Signaled, Data: data, RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey()}
		}
		for round := range 300 {
			n := 1 + round%3
			if round%5 == 4 {
				list := make([]nicless.SendWR, n)
				for i := range list {
					list[i] = wr()
				}
				_, err := b.a.PostSendList(list)
				require.NoError(t, err)
			} else {
				for range n {
					w := wr()
					require.NoError(t, b.a.PostSend(&w))
				}
			}
			for i, c := range poll(t, b.cq, n) {
				require.Equal(t, cqe.StatusSuccess, c.Status)
				require.Equal(t, next-uint64(n-1-i), c.ID)
			}
			require.Equal(t, fmt.Sprintf("%08d", next), string(b.mr.Bytes()[64:72]))
		}
	})
}

// There are eight BlueFlame registers. Each belongs to one queue pair until that queue pair
// is closed.
func TestBlueFlameRegisters(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		cq, err := ctx.CreateCQ(nicless.CQConfig{})
		require.NoError(t, err)
		cfg := nicless.QPConfig{SendCQ: cq, BlueFlame: true}
		var list []*nicless.QP
		for range 8 {
			q, err := pd.CreateQP(cfg)
			require.NoError(t, err)
			list = append(list, q)
		}
		_, err = pd.CreateQP(cfg)
		require.ErrorContains(t, err, "all 8 registers")
		_, err = list[3].Raw()
		require.ErrorContains(t, err, "BlueFlame")
		require.NoError(t, list[3].Close())
		_, err = pd.CreateQP(cfg)
		require.NoError(t, err)
		for _, change := range []func(*nicless.QPConfig){
			func(c *nicless.QPConfig) { c.Type = nicless.UD },
			func(c *nicless.QPConfig) { c.Concurrent = true },
			func(c *nicless.QPConfig) { c.Managed = true },
		} {
			c := cfg
			change(&c)
			_, err = pd.CreateQP(c)
			require.ErrorContains(t, err, "BlueFlame with")
		}
	})
}
