package apitest

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

func TestUC(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{Type: nicless.UC})
		copy(b.mr.Bytes(), "unreliable")
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{b.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr() + 100, RKey: b.mr.RKey()})
		require.Equal(t, "unreliable", string(b.mr.Bytes()[100:110]))
		// There is no receive for this message, and the sender is not notified of that.
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Send, Data: []byte("lost")})
		require.NoError(t, b.b.PostRecv(&nicless.RecvWR{ID: 7, SGE: []nicless.SGE{b.mr.SGE(200, 8)}}))
		require.NoError(t, b.a.PostSend(&nicless.SendWR{Op: nicless.SendImm, Imm: 9, Data: []byte("found")}))
		c := b.await(t, 1)[0]
		require.NoError(t, c.Err())
		require.Equal(t, []any{uint64(7), uint32(9), uint32(5)}, []any{c.ID, c.Imm, c.ByteLen})
		require.Equal(t, "found", string(b.mr.Bytes()[200:205]))
		require.ErrorContains(t, b.a.PostSend(&nicless.SendWR{Op: nicless.Read, SGE: []nicless.SGE{b.mr.SGE(0, 8)}}), "UC queue")
		require.Equal(t, nicless.UC, b.a.Transport())

		rc, err := b.pd.CreateQP(nicless.QPConfig{SendCQ: b.cq})
		require.NoError(t, err)
		require.ErrorContains(t, rc.Connect(b.b.Descriptor(), nicless.Connection{}), "transport UC, this one of RC")
		require.ErrorContains(t, rc.Activate(), "Connect it")
	})
}

// datagrams returns two UD queue pairs that are ready.
func datagrams(t *testing.T, ctx *nicless.Context) (b *bench) {
	t.Helper()
	b = &bench{ctx: ctx}
	var err error
	b.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	b.mr, err = b.pd.RegisterMemory(mrSize, nicless.FullAccess)
	require.NoError(t, err)
	b.cq, err = ctx.CreateCQ(nicless.CQConfig{})
	require.NoError(t, err)
	for i, q := range []**nicless.QP{&b.a, &b.b} {
		*q, err = b.pd.CreateQP(nicless.QPConfig{Type: nicless.UD, SendCQ: b.cq, QKey: 0x1000 + uint32(i)})
		require.NoError(t, err)
		require.ErrorIs(t, (*q).PostSend(&nop), nicless.ErrNotConnected)
		require.NoError(t, (*q).Activate())
	}
	return b
}

func TestUD(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := datagrams(t, ctx)
		d := b.b.Descriptor()
		require.Equal(t, []any{nicless.UD, uint32(0x1001), uint32(0)}, []any{d.Transport, d.QKey, d.PSN})
		to, err := b.a.AddressOf(d)
		require.NoError(t, err)
		require.ErrorContains(t, b.a.Connect(d, nicless.Connection{}), "Activate")

		recv := func(q *nicless.QP, off int) {
			t.Helper()
			require.NoError(t, q.PostRecv(&nicless.RecvWR{ID: uint64(off), SGE: []nicless.SGE{b.mr.SGE(off, nicless.GRHSize+100)}}))
		}
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Send, To: to, Data: []byte("dropped: nothing posted")})
		recv(b.b, 1000)
		wrong := *to
		wrong.QKey++
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Send, To: &wrong, Data: []byte("dropped: another qkey")})
		copy(b.mr.Bytes(), "datagram")
		require.NoError(t, b.a.PostSend(&nicless.SendWR{Op: nicless.SendImm, Imm: 5, To: to, SGE: []nicless.SGE{b.mr.SGE(0, 8)}}))
		c := b.await(t, 1)[0]
		require.NoError(t, c.Err())
		require.Equal(t, []any{uint64(1000), uint32(nicless.GRHSize + 8), uint32(5), b.a.QPN()}, []any{c.ID, c.ByteLen, c.Imm, c.SrcQP})
		require.Equal(t, cqe.WCGRH|cqe.WCWithImm, c.Flags)
		got := b.mr.Bytes()[1000:]
		require.Equal(t, byte(6), got[0]>>4, "an IPv6 header")
		require.Equal(t, uint16(8+20+4), binary.BigEndian.Uint16(got[4:]), "the message, BTH, DETH and ICRC")
		require.Equal(t, ctx.Device(), binary.BigEndian.Uint64(got[16:]), "the source's address")
		require.Equal(t, "datagram", string(got[nicless.GRHSize:nicless.GRHSize+8]))

		// A reply to the queue pair that the completion names. Bit 31 of the Q_Key means the
		// sender's own Q_Key.
		recv(b.a, 2000)
		require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrQKey, QKey: 0x1001}))
		require.NoError(t, b.b.PostSend(&nicless.SendWR{Op: nicless.Send, To: ctx.Address(c.SrcQP, 1<<31), Data: []byte("back")}))
		c = b.await(t, 1)[0]
		require.Equal(t, b.b.QPN(), c.SrcQP)
		require.Equal(t, "back", string(b.mr.Bytes()[2000+nicless.GRHSize:][:4]))

		c = b.do(t, b.a, nicless.SendWR{Op: nicless.Send, To: to, SGE: []nicless.SGE{b.mr.SGE(0, 4097)}})
		require.ErrorIs(t, c.Err(), cqe.LocalLength)
		a, err := b.a.Query()
		require.NoError(t, err)
		require.Equal(t, nicless.StateSQE, a.State, "it still receives")
		require.Equal(t, uint32(0x1001), a.QKey)
		require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateRTS}))
		b.ok(t, b.a, nop)
	})
}

// Query returns the values that Modify has set.
func TestModifyAndQuery(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	a, err := b.a.Query()
	require.NoError(t, err)
	require.Equal(t, nicless.StateRTS, a.State)
	require.Equal(t, []any{b.b.QPN(), ctxDevice(b), uint8(5), uint8(14), uint8(7), uint8(7), uint8(12)},
		[]any{a.DestQPN, a.Device, a.PathMTU, a.Timeout, a.RetryCount, a.RNRRetry, a.MinRNRTimer})
	require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateSQD}))
	ev := event(t, b.ctx)
	require.Equal(t, nicless.EventDrained, ev.Kind)
	require.Same(t, b.a, ev.QP)
	require.NoError(t, b.a.PostSend(&nop), "waits")
	want := nicless.Attr{
		Mask:   nicless.AttrAccess | nicless.AttrTimeout | nicless.AttrRetryCount | nicless.AttrRNRRetry | nicless.AttrMinRNRTimer,
		Access: nicless.RemoteRead, Timeout: 3, RetryCount: 2, RNRRetry: 1, MinRNRTimer: 9,
	}
	require.NoError(t, b.a.Modify(&want))
	a, err = b.a.Query()
	require.NoError(t, err)
	require.Equal(t, nicless.StateSQD, a.State)
	require.Equal(t, []any{nicless.RemoteRead, uint8(3), uint8(2), uint8(1), uint8(9)},
		[]any{a.Access, a.Timeout, a.RetryCount, a.RNRRetry, a.MinRNRTimer})
	require.ErrorIs(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateINIT}), nicless.ErrState)
	require.ErrorIs(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrQKey}), nicless.ErrInvalid)
	require.NoError(t, b.a.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateRTS}))
	require.NoError(t, b.await(t, 1)[0].Err())
	require.Equal(t, "SQD", nicless.StateSQD.String())
	require.Equal(t, "unknown state", nicless.State(7).String())
}

func ctxDevice(b *bench) uint64 { return b.ctx.Device() }
