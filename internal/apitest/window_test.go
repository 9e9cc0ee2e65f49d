package apitest

import (
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// windowed returns a bench, an MR to which windows may be bound, and a function by which a
// peer writes one byte with an rkey.
func windowed(t *testing.T, ctx *nicless.Context) (b *bench, m *nicless.MR, write func(to *nicless.QP, addr uint64, rkey uint32) error) {
	b = fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
	m, err := b.pd.RegisterMemory(4096, nicless.LocalWrite|nicless.MWBind)
	require.NoError(t, err)
	return b, m, func(from *nicless.QP, addr uint64, rkey uint32) error {
		t.Helper()
		c := b.do(t, from, nicless.SendWR{Op: nicless.Write, Data: []byte{1}, RemoteAddr: addr, RKey: rkey})
		return c.Err()
	}
}

// revive resets the two queue pairs and connects them again.
func (b *bench) revive(t *testing.T) {
	t.Helper()
	for _, q := range []*nicless.QP{b.a, b.b} {
		require.NoError(t, q.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateRST}))
		require.NoError(t, q.Modify(&nicless.Attr{
			Mask:  nicless.AttrState | nicless.AttrAccess | nicless.AttrPKeyIndex | nicless.AttrPort,
			State: nicless.StateINIT, Port: 1, Access: nicless.RemoteWrite | nicless.RemoteRead | nicless.RemoteAtomic,
		}))
	}
	require.NoError(t, nicless.Pair(b.a, b.b, nicless.Connection{}))
}

func TestWindows(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		for _, kind := range []int{1, 2} {
			b, m, write := windowed(t, ctx)
			w, err := b.pd.AllocWindow(kind)
			require.NoError(t, err)
			unbound := w.RKey()
			b.ok(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(m, 100, 50, nicless.RemoteWrite)})
			require.Equal(t, nicless.IncRKey(unbound), w.RKey())
			require.Equal(t, unbound>>8, w.RKey()>>8)
			require.NoError(t, write(b.a, m.Addr()+100, w.RKey()))
			require.NoError(t, write(b.a, m.Addr()+149, w.RKey()))
			require.Equal(t, []byte{1, 1}, []byte{m.Bytes()[100], m.Bytes()[149]})
			require.ErrorIs(t, m.Close(), nicless.ErrBusy)
			require.ErrorIs(t, write(b.a, m.Addr()+150, w.RKey()), cqe.RemoteAccess, "outside")
			b.revive(t)
			require.ErrorIs(t, write(b.a, m.Addr()+100, unbound), cqe.RemoteAccess, "the old rkey")
			b.revive(t)

			old := w.RKey()
			if kind == 1 { // a window of type 1 can be bound again without being closed
				b.ok(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(m, 0, 8, nicless.RemoteWrite|nicless.ZeroBased)})
			} else {
				b.ok(t, b.b, nicless.SendWR{Op: nicless.LocalInval, RKey: old})
				b.ok(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(m, 0, 8, nicless.RemoteWrite|nicless.ZeroBased)})
			}
			require.NoError(t, write(b.a, 7, w.RKey()), "by offset")
			require.Equal(t, byte(1), m.Bytes()[7])
			require.ErrorIs(t, write(b.a, 0, old), cqe.RemoteAccess)
			for range 2 {
				require.NoError(t, w.Close())
			}
			b.revive(t)
			require.ErrorIs(t, write(b.a, 7, w.RKey()), cqe.RemoteAccess, "closed")
			require.NoError(t, m.Close())
		}
	})
}

// The peer closes a window of type 2 with a message.
func TestSendInval(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b, m, write := windowed(t, ctx)
		w, err := b.pd.AllocWindow(2)
		require.NoError(t, err)
		b.ok(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(m, 0, 50, nicless.RemoteWrite)})
		require.NoError(t, write(b.a, m.Addr(), w.RKey()))
		require.NoError(t, b.b.PostRecv(&nicless.RecvWR{ID: 3}))
		require.NoError(t, b.a.PostSend(&nicless.SendWR{Op: nicless.SendInval, RKey: w.RKey()}))
		c := b.await(t, 1)[0]
		require.NoError(t, c.Err())
		require.Equal(t, []any{uint64(3), w.RKey(), cqe.WCWithInv}, []any{c.ID, c.Imm, c.Flags})
		require.ErrorIs(t, write(b.a, m.Addr(), w.RKey()), cqe.RemoteAccess)
	})
}

func TestWindowsRefused(t *testing.T) {
	b, m, _ := windowed(t, open(t, nicless.CQConfig{}, nicless.QPConfig{}).ctx)
	_, err := b.pd.AllocWindow(3)
	require.ErrorIs(t, err, nicless.ErrInvalid)
	w, err := b.pd.AllocWindow(2)
	require.NoError(t, err)
	// The memory was not registered with MWBind.
	c := b.do(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(b.mr, 0, 8, nicless.RemoteWrite)})
	require.ErrorIs(t, c.Err(), cqe.MWBind)
	b.revive(t)
	// A window of type 2 cannot be bound again while it is bound.
	b.ok(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(m, 0, 8, nicless.RemoteWrite)})
	was := w.RKey()
	c = b.do(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(m, 0, 8, nicless.RemoteWrite)})
	require.ErrorIs(t, c.Err(), cqe.MWBind)
	w.SetRKey(was)
	b.revive(t)
	b.ok(t, b.b, nicless.SendWR{Op: nicless.LocalInval, RKey: w.RKey()})
	b.ok(t, b.b, nicless.SendWR{Op: nicless.BindMW, Bind: w.Bind(m, 0, 8, nicless.RemoteWrite)})
	require.NoError(t, b.ctx.Close())
	require.NoError(t, w.Close())
	_, err = b.pd.AllocWindow(1)
	require.ErrorIs(t, err, nicless.ErrClosed)
}

func TestLists(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		k, err := b.pd.CreateListKey(52)
		require.NoError(t, err)
		m := b.mr.Bytes()
		const all = nicless.LocalWrite | nicless.RemoteRead | nicless.RemoteWrite
		b.ok(t, b.b, nicless.SendWR{Op: nicless.BindList, List: k.List(all, b.mr.SGE(1000, 3), b.mr.SGE(2000, 4), b.mr.SGE(1500, 5))})
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Write, Data: []byte("abcdefghijkl"), RemoteAddr: 0, RKey: k.RKey()})
		require.Equal(t, "abc defg hijkl", string(m[1000:1003])+" "+string(m[2000:2004])+" "+string(m[1500:1505]))
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Read, SGE: []nicless.SGE{b.mr.SGE(0, 6)}, RemoteAddr: 2, RKey: k.RKey()})
		require.Equal(t, "cdefgh", string(m[:6]))
		// The list is the source of a request of this side, and the memory of a receive.
		b.ok(t, b.b, nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{k.SGE(6, 6)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		require.Equal(t, "ghijkl", string(m[:6]))
		require.NoError(t, b.b.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{k.SGE(0, 12)}}))
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Send, Data: []byte("ABCDEFGHIJKL")})
		require.Equal(t, "ABCDEFGHIJKL", string(m[1000:1003])+string(m[2000:2004])+string(m[1500:1505]))

		// The key is filled again, with two columns of a table, row by row.
		b.ok(t, b.b, nicless.SendWR{Op: nicless.BindList, List: k.Interleave(all, 3,
			nicless.ListEntry{SGE: b.mr.SGE(4000, 2), Stride: 10}, nicless.ListEntry{SGE: b.mr.SGE(5000, 1), Stride: 1})})
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Write, Data: []byte("aa1bb2cc3"), RemoteAddr: 0, RKey: k.RKey()})
		require.Equal(t, "aabbcc123", string(m[4000:4002])+string(m[4010:4012])+string(m[4020:4022])+string(m[5000:5003]))

		b.ok(t, b.b, nicless.SendWR{Op: nicless.LocalInval, RKey: k.RKey()})
		c := b.do(t, b.a, nicless.SendWR{Op: nicless.Write, Data: []byte{1}, RemoteAddr: 0, RKey: k.RKey()})
		require.ErrorIs(t, c.Err(), cqe.RemoteAccess, "emptied")
		b.revive(t)
		var pieces []nicless.SGE // the longest list, in a ring that has room for it
		for i := range 52 {
			pieces = append(pieces, b.mr.SGE(100*i, 1))
		}
		b.ok(t, b.b, nicless.SendWR{Op: nicless.BindList, List: k.List(all, pieces...)})
		b.ok(t, b.a, nicless.SendWR{Op: nicless.Write, Data: []byte("xy"), RemoteAddr: 50, RKey: k.RKey()})
		require.Equal(t, "xy", string([]byte{m[5000], m[5100]}))
		for range 2 {
			require.NoError(t, k.Close())
		}
	})
}

func TestListKeysRefused(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{MaxSendWR: 1})
	for _, n := range []int{0, -1, 53} {
		_, err := b.pd.CreateListKey(n)
		require.ErrorIs(t, err, nicless.ErrInvalid)
	}
	k, err := b.pd.CreateListKey(2)
	require.NoError(t, err)
	// The smallest ring has room for a list of eight entries. This key has room for two.
	require.ErrorContains(t, b.a.PostSend(&nicless.SendWR{Op: nicless.BindList, List: k.List(0, make9(b)...)}), "at most 256")
	c := b.do(t, b.a, nicless.SendWR{Op: nicless.BindList, List: k.List(0, make9(b)[:8]...)})
	require.ErrorIs(t, c.Err(), cqe.MWBind)
}

func make9(b *bench) (list []nicless.SGE) {
	for range 9 {
		list = append(list, b.mr.SGE(0, 1))
	}
	return list
}

// Reregister gives an MR another range, domain and rights, and another key.
func TestReregister(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		m, err := b.pd.RegisterMemory(4096, nicless.LocalWrite)
		require.NoError(t, err)
		copy(m.Bytes(), "hello")
		old, addr := m.RKey(), m.Addr()
		read := func(addr uint64, rkey uint32) nicless.Completion {
			t.Helper()
			return b.do(t, b.a, nicless.SendWR{Op: nicless.Read, SGE: []nicless.SGE{b.mr.SGE(0, 4)}, RemoteAddr: addr, RKey: rkey})
		}
		require.NoError(t, m.Reregister(nil, 1, 4, nicless.RemoteRead))
		require.Equal(t, []any{addr + 1, 4, "ello"}, []any{m.Addr(), m.Len(), string(m.Bytes())})
		require.NotEqual(t, old, m.RKey())
		c := read(m.Addr(), m.RKey())
		require.NoError(t, c.Err())
		require.Equal(t, "ello", string(b.mr.Bytes()[:4]))
		c = read(m.Addr(), old)
		require.ErrorIs(t, c.Err(), cqe.RemoteAccess)
		b.revive(t)

		other, err := ctx.AllocPD()
		require.NoError(t, err)
		require.NoError(t, m.Reregister(other, 0, 4096, nicless.RemoteRead|nicless.ZeroBased))
		require.Equal(t, []any{uint64(0), 4096}, []any{m.Addr(), m.Len()})
		require.ErrorIs(t, other.Close(), nicless.ErrBusy)
		c = read(0, m.RKey())
		require.ErrorIs(t, c.Err(), cqe.RemoteAccess, "another domain")
		for _, r := range [][2]int{{-1, 1}, {0, 0}, {0, 4097}, {4096, 1}} {
			require.Error(t, m.Reregister(nil, r[0], r[1], 0))
		}
		require.ErrorIs(t, m.Reregister(nil, 0, 1, nicless.RemoteWrite), nicless.ErrInvalid, "remote write without local write")
		require.Equal(t, 4096, m.Len(), "a refusal changes nothing")
		require.NoError(t, m.Close())
		require.NoError(t, other.Close())
		require.ErrorIs(t, m.Reregister(nil, 0, 1, 0), nicless.ErrClosed)
	})
}
