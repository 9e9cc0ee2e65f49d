package apitest

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

func TestAtomics(t *testing.T) {
	each(t, func(t *testing.T, ctx *nicless.Context) {
		b := fill(t, ctx, nicless.CQConfig{}, nicless.QPConfig{})
		const target, result = 64, 128
		le := binary.LittleEndian
		at := func(wr nicless.SendWR, size int) nicless.SendWR {
			wr.RemoteAddr, wr.RKey, wr.SGE = b.mr.Addr()+target, b.mr.RKey(), []nicless.SGE{b.mr.SGE(result, size)}
			return wr
		}
		le.PutUint64(b.mr.Bytes()[target:], 40)
		c := b.ok(t, b.a, at(nicless.SendWR{Op: nicless.FetchAdd, SwapAdd: 2}, 8))
		require.Equal(t, []any{cqe.WCFetchAdd, uint32(8)}, []any{c.Opcode, c.ByteLen})
		require.Equal(t, []uint64{42, 40}, []uint64{b.mr.Load64(target), b.mr.Load64(result)})
		c = b.ok(t, b.a, at(nicless.SendWR{Op: nicless.CompareSwap, Compare: 41, SwapAdd: 1}, 8))
		require.Equal(t, cqe.WCCompSwap, c.Opcode)
		require.Equal(t, []uint64{42, 42}, []uint64{b.mr.Load64(target), b.mr.Load64(result)})
		b.ok(t, b.a, at(nicless.SendWR{Op: nicless.CompareSwap, Compare: 42, SwapAdd: 0x1122334455667788}, 8))
		require.Equal(t, uint64(0x1122334455667788), b.mr.Load64(target))

		// With this mask only the low byte is compared, and only the high half is replaced.
		c = b.ok(t, b.a, at(nicless.SendWR{Op: nicless.MaskedCompareSwap, Compare: 0xff88, SwapAdd: 0xaabbccdd << 32,
			Mask: &nicless.Mask{Compare: 0xff, Swap: 0xffffffff << 32}}, 8))
		require.Equal(t, []any{cqe.WCCompSwap, uint32(8)}, []any{c.Opcode, c.ByteLen})
		require.Equal(t, []uint64{0xaabbccdd55667788, 0x1122334455667788}, []uint64{b.mr.Load64(target), b.mr.Load64(result)})
		// No carry passes from the low half to the high one.
		b.ok(t, b.a, at(nicless.SendWR{Op: nicless.MaskedFetchAdd, SwapAdd: 1<<32 | 0xffffffff, Mask: &nicless.Mask{Boundary: 1<<63 | 1<<31}}, 8))
		require.Equal(t, uint64(0xaabbccde55667787), b.mr.Load64(target))

		le.PutUint64(b.mr.Bytes()[target:], 0xdeadbeef_00000007)
		c = b.ok(t, b.a, at(nicless.SendWR{Op: nicless.MaskedFetchAdd, SwapAdd: 3, Mask: &nicless.Mask{}}, 4))
		require.Equal(t, []any{cqe.WCFetchAdd, uint32(4)}, []any{c.Opcode, c.ByteLen})
		require.Equal(t, uint32(7), b.mr.Old32(result))
		require.Equal(t, uint64(0xdeadbeef_0000000a), b.mr.Load64(target), "the word beside it is left alone")
		b.ok(t, b.a, at(nicless.SendWR{Op: nicless.MaskedCompareSwap, SwapAdd: 0x55, Mask: &nicless.Mask{Swap: 0xffffffff}}, 4))
		require.Equal(t, uint32(10), b.mr.Old32(result))
		require.Equal(t, uint64(0xdeadbeef_00000055), b.mr.Load64(target), "a plain swap")

		wr := at(nicless.SendWR{Op: nicless.FetchAdd}, 8)
		wr.RemoteAddr++
		c = b.do(t, b.a, wr)
		require.ErrorIs(t, c.Err(), cqe.RemoteInvalidRequest)
		ev := event(t, ctx)
		require.Equal(t, nicless.EventInvalidRequest, ev.Kind)
		require.Same(t, b.b, ev.QP)
	})
}
