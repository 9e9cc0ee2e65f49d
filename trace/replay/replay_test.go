//go:build linux && (amd64 || arm64)

package replay_test

import (
	"testing"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// talk makes two clients do a little of everything.
func talk(t *testing.T, transport nicless.Transport) func([]*nicless.Context) {
	return func(c []*nicless.Context) {
		a := newSide(t, c[0], nicless.QPConfig{Type: transport}, nicless.CQConfig{})
		b := newSide(t, c[1], nicless.QPConfig{Type: transport}, nicless.CQConfig{})
		require.NoError(t, nicless.Pair(a.qp, b.qp, nicless.Connection{}))
		far := func(op nicless.Op, at, n, to int, flags nicless.Flags) nicless.SendWR {
			return nicless.SendWR{Op: op, Flags: flags, SGE: []nicless.SGE{a.mr.SGE(at, n)}, RemoteAddr: b.mr.Addr() + uint64(to), RKey: b.mr.RKey()}
		}
		a.fill(1, 0, 1<<19)
		b.fill(7, 0, 1<<19)
		a.send(far(nicless.Write, 0, 10_000, 1<<19, nicless.Signaled))
		a.wait(1)
		a.send(nicless.SendWR{Op: nicless.Write, Data: []byte("short and inline"), RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey()})
		a.send(far(nicless.Write, 100, 300_000, 1<<19, nicless.Signaled)) // several visits
		a.wait(1)
		if transport == nicless.RC {
			a.send(far(nicless.Read, 1<<19, 100_000, 5, nicless.Signaled))
			a.send(nicless.SendWR{Op: nicless.FetchAdd, Flags: nicless.Signaled, SwapAdd: 5, SGE: []nicless.SGE{a.mr.SGE(8, 8)}, RemoteAddr: b.mr.Addr() + 4096, RKey: b.mr.RKey()})
			a.send(nicless.SendWR{Op: nicless.CompareSwap, Flags: nicless.Signaled, Compare: 3, SwapAdd: 5, SGE: []nicless.SGE{a.mr.SGE(16, 8)}, RemoteAddr: b.mr.Addr() + 4104, RKey: b.mr.RKey()})
			a.wait(3)
		}
		for i := range 20 {
			require.NoError(t, b.qp.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b.mr.SGE(1<<18+i*4096, 100), b.mr.SGE(1<<19+i*4096, 3000)}}))
			a.fill(byte(i), i*8, 2000)
			a.send(nicless.SendWR{Op: nicless.SendImm, Imm: uint32(i), Flags: nicless.Signaled, SGE: []nicless.SGE{a.mr.SGE(i*8, 1+i*100)}})
			a.wait(1)
			b.wait(1)
		}
		require.NoError(t, b.qp.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b.mr.SGE(0, 100)}}))
		a.send(far(nicless.WriteImm, 0, 100, 1<<19, nicless.Signaled))
		a.wait(1)
		b.wait(1)
	}
}

func TestConnected(t *testing.T) {
	for _, transport := range []nicless.Transport{nicless.RC, nicless.UC} {
		b := record(t, 2, true, talk(t, transport))
		r := same(t, b)
		t.Logf("%v: %+v, %d bytes of trace", transport, *r, len(b))
	}
}
