package apitest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// A program with a Compressed CQ gets the completions that it would get without: of lists
// and of single work requests, in rings of any size, for many laps, of sends and receives
// together. That completions are really compressed is shown in package engine, and in
// TestCompressedEntries.
func TestCompressed(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		for _, entries := range []int{2, 4, 8, 64} {
			t.Run(fmt.Sprint(entries), func(t *testing.T) {
				b := fill(t, ctx, nicless.CQConfig{Entries: entries, Compressed: true}, nicless.QPConfig{})
				id := uint64(0)
				for round := range 200 {
					n := 1 + round%min(entries, 20)
					if round%3 == 2 {
						n = min(n, entries/2)
						b.message(t, id, n)
					} else {
						b.list(t, id, n, round%2 == 1)
					}
					id += uint64(n)
				}
			})
		}
	})
}

// list posts n WRITEs or READs as one list, and checks their completions.
func (b *bench) list(t *testing.T, id uint64, n int, read bool) {
	t.Helper()
	var list []nicless.SendWR
	for i := range n {
		wr := nicless.SendWR{
			ID: id + uint64(i), Op: nicless.Write, Flags: nicless.Signaled,
			SGE: []nicless.SGE{b.mr.SGE(0, 1+i)}, RemoteAddr: b.mr.Addr() + 4096, RKey: b.mr.RKey(),
		}
		if read {
			wr.Op = nicless.Read
		}
		list = append(list, wr)
	}
	_, err := b.a.PostSendList(list)
	require.NoError(t, err)
	for i, c := range poll(t, b.cq, n) {
		require.NoError(t, c.Err())
		require.Equal(t, id+uint64(i), c.ID)
		require.Equal(t, b.a.QPN(), c.QPN)
		if read {
			require.EqualValues(t, 1+i, c.ByteLen)
		}
	}
}

// message sends n messages of different lengths as one list, and checks the completions of
// both sides.
func (b *bench) message(t *testing.T, id uint64, n int) {
	t.Helper()
	var list []nicless.SendWR
	for i := range n {
		require.NoError(t, b.b.PostRecv(&nicless.RecvWR{ID: id + uint64(i), SGE: []nicless.SGE{b.mr.SGE(8192, 64)}}))
		list = append(list, nicless.SendWR{
			ID: id + uint64(i), Op: nicless.SendImm, Imm: 5, Flags: nicless.Signaled, SGE: []nicless.SGE{b.mr.SGE(0, 1+i)},
		})
	}
	_, err := b.a.PostSendList(list)
	require.NoError(t, err)
	sent, received := id, id
	for _, c := range poll(t, b.cq, 2*n) {
		require.NoError(t, c.Err())
		if c.Requester() {
			require.Equal(t, sent, c.ID)
			sent++
			continue
		}
		require.Equal(t, received, c.ID)
		require.EqualValues(t, 1+received-id, c.ByteLen)
		require.EqualValues(t, 5, c.Imm)
		received++
	}
	require.Equal(t, []uint64{id + uint64(n), id + uint64(n)}, []uint64{sent, received})
}

// A work request that fails comes after the completions before it, and what is behind it is
// flushed. The queue goes on after a reset.
func TestCompressedError(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{Entries: 64, Compressed: true}, nicless.QPConfig{})
		for range 3 {
			b.list(t, 0, 8, false)
			var list []nicless.SendWR
			for i := range 10 {
				wr := nicless.SendWR{ID: uint64(i), Op: nicless.Write, Data: []byte{1}, Flags: nicless.Signaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
				if i == 6 {
					wr.RKey ^= 1
				}
				list = append(list, wr)
			}
			_, err := b.a.PostSendList(list)
			require.NoError(t, err)
			for i, c := range poll(t, b.cq, 10) {
				require.EqualValues(t, i, c.ID)
				switch {
				case i < 6:
					require.NoError(t, c.Err())
				case i == 6:
					require.ErrorIs(t, c.Err(), cqe.RemoteAccess)
				default:
					require.ErrorIs(t, c.Err(), cqe.Flush)
				}
			}
			b.revive(t)
		}
	})
}

// A wait for the event of a Compressed queue, and a change of its size, work as usual.
func TestCompressedWaitAndResize(t *testing.T) {
	b := open(t, nicless.CQConfig{Entries: 16, Compressed: true}, nicless.QPConfig{})
	id := uint64(0)
	for round := range 40 {
		var list []nicless.SendWR
		for i := range 6 {
			list = append(list, nicless.SendWR{ID: id + uint64(i), Op: nicless.Write, Data: []byte{1}, Flags: nicless.Signaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		}
		_, err := b.a.PostSendList(list)
		require.NoError(t, err)
		if round%4 == 3 {
			require.NoError(t, b.cq.Resize([]int{8, 64, 16}[round/4%3]))
		}
		for _, c := range b.await(t, 6) {
			require.NoError(t, c.Err())
			require.Equal(t, id, c.ID)
			id++
		}
	}
}

func TestCompressedConfigs(t *testing.T) {
	b := open(t, nicless.CQConfig{Compressed: true}, nicless.QPConfig{})
	for _, c := range []nicless.CQConfig{{Compressed: true, Collapsed: true}, {Compressed: true, Size128: true}} {
		_, err := b.ctx.CreateCQ(c)
		require.ErrorContains(t, err, "compressed")
	}
	_, err := b.a.Raw()
	require.ErrorContains(t, err, "Compressed")
}
