package wqe_test

import (
	"encoding/binary"
	enc "encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/wqe"
)

func unhex(s string) []byte {
	b, err := enc.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestCtrlBits(t *testing.T) {
	for _, c := range []struct {
		name  string
		ctrl  wqe.Ctrl
		bytes string
	}{
		{"zero", wqe.Ctrl{}, "00000000 00000000 00000000 00000000"},
		{"index wraps at 16 bits", wqe.Ctrl{Index: 0xffff, QPN: 1, DS: 1}, "00ffff00 00000101 00000000 00000000"},
		{"opmod next to the index", wqe.Ctrl{OpMod: 9, Opcode: wqe.OpAtomicMaskedCS, DS: 5}, "09000014 00000005 00000000 00000000"},
		{"reserved bits over ds", wqe.Ctrl{Rsvd: 3, DS: 63}, "00000000 000000ff 00000000 00000000"},
		{"largest qpn", wqe.Ctrl{QPN: 0xffffff, DS: 1}, "00000000 ffffff01 00000000 00000000"},
		{"second half", wqe.Ctrl{Sig: 0xa5, Stream: 0x1234, Flags: 0x8a, Imm: 0xdeadbeef}, "00000000 00000000 a512348a deadbeef"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := [wqe.CtrlSize]byte(unhex(trim(c.bytes)))
			var got [wqe.CtrlSize]byte
			c.ctrl.Put(&got)
			assert.Equal(t, want, got)
			assert.Equal(t, c.ctrl, wqe.ParseCtrl(&want))
		})
	}
}

func TestCtrlDropsBitsBeyondTheirWidth(t *testing.T) {
	var b [wqe.CtrlSize]byte
	wqe.Ctrl{QPN: 0xff000001, DS: 0x41, Rsvd: 0x05}.Put(&b)
	assert.Equal(t, wqe.Ctrl{QPN: 1, DS: 1, Rsvd: 1}, wqe.ParseCtrl(&b))
}

func TestCtrlParts(t *testing.T) {
	c := wqe.Ctrl{Flags: wqe.FenceVerbs | wqe.CEAlways | wqe.FlagSolicited}
	assert.EqualValues(t, 4, c.Fence())
	assert.EqualValues(t, 2, c.Completion())
	assert.EqualValues(t, 1, c.Solicited())
	for ds, blocks := range map[uint8]int{1: 1, 4: 1, 5: 2, 8: 2, 63: 16} {
		assert.Equal(t, blocks, wqe.Ctrl{DS: ds}.Blocks(), "ds %d", ds)
	}
	for _, c := range []struct {
		op    wqe.Opcode
		opmod uint8
		size  int
	}{
		{wqe.OpAtomicFA, 0x55, 8}, {wqe.OpAtomicMaskedCS, 0, 8}, {wqe.OpAtomicMaskedFA, 8, 4},
		{wqe.OpAtomicMaskedFA, 9, 8}, {wqe.OpAtomicMaskedFA, 10, 0}, {wqe.OpSend, 8, 0},
	} {
		assert.Equal(t, c.size, wqe.Ctrl{Opcode: c.op, OpMod: c.opmod}.OperandSize(), "%v opmod %d", c.op, c.opmod)
	}
}

func TestDataLength(t *testing.T) {
	assert.EqualValues(t, 1<<31, wqe.Data{}.Length(), "0 stands for 2^31")
	assert.EqualValues(t, 1, wqe.Data{ByteCount: 1}.Length())
	assert.EqualValues(t, 1<<31-1, wqe.Data{ByteCount: 1<<31 - 1}.Length())
	assert.True(t, wqe.Data{LKey: wqe.KeyEnd, Addr: 5}.End(), "the address does not matter")
	assert.False(t, wqe.Data{LKey: wqe.KeyEnd + 1}.End())
	assert.False(t, wqe.Data{LKey: wqe.KeyEnd, ByteCount: 1}.End())
}

func TestInlineUnits(t *testing.T) {
	for n, units := range map[int]int{0: 1, 1: 1, 12: 1, 13: 2, 28: 2, 29: 3, wqe.MaxInline: 62} {
		assert.Equal(t, units, wqe.InlineUnits(n), "%d bytes", n)
	}
	for n, units := range map[int]int{0: 1, 2: 1, 3: 2, 18: 2, 19: 3} {
		assert.Equal(t, units, wqe.EthUnits(n), "%d header bytes", n)
	}
}

func TestOpcodeNames(t *testing.T) {
	assert.Equal(t, "RDMA_WRITE", wqe.OpRDMAWrite.String())
	assert.Equal(t, "opcode 0x02", wqe.Opcode(2).String())
	known := 0
	names := map[string]bool{}
	for o := range 256 {
		if i := wqe.Opcode(o).Info(); i.Known() {
			known++
			names[i.Name] = true
			assert.Equal(t, i.Name, wqe.Opcode(o).String())
		} else {
			assert.Zero(t, *i, "an undefined opcode takes nothing")
		}
	}
	assert.Equal(t, 30, known)
	assert.Len(t, names, known)
}

func TestBuilderSignsAcrossTheRingsEnd(t *testing.T) {
	build := func(index uint16) []byte {
		ring := make([]byte, 4*wqe.BlockSize)
		b := wqe.Start(ring, index)
		b.Raddr(wqe.Raddr{Addr: 0x1122334455667788, RKey: 0x99aabbcc})
		b.Inline([]byte("signed from one end of the ring to the other"))
		_, err := b.FinishSigned(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, QPN: 3, Sig: 0x77})
		require.NoError(t, err)
		got := make([]byte, 6*wqe.UnitSize)
		wqe.Unwrap(got, ring, index)
		return got
	}
	for index := range uint16(4) {
		got := build(index)
		assert.Equal(t, wqe.Sign(got), got[8], "index %d", index)
		var x byte
		for _, b := range got {
			x ^= b
		}
		assert.EqualValues(t, 0xff, x, "a signed WQE sums to ones")
	}
}

func TestBuilderLimits(t *testing.T) {
	data := wqe.Data{ByteCount: 1, LKey: 2, Addr: 3}
	t.Run("63 units", func(t *testing.T) {
		ring := make([]byte, 16*wqe.BlockSize)
		b := wqe.Start(ring, 0)
		for range 62 {
			b.Data(data)
		}
		blocks, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpSend})
		require.NoError(t, err)
		assert.Equal(t, 16, blocks)
	})
	t.Run("64 units", func(t *testing.T) {
		ring := make([]byte, 32*wqe.BlockSize)
		b := wqe.Start(ring, 0)
		for range 63 {
			b.Data(data)
		}
		_, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpSend})
		assert.EqualError(t, err, "wqe: SEND of 64 units, at most 63")
		assert.Equal(t, make([]byte, len(ring)-wqe.MaxSize), ring[wqe.MaxSize:], "what is not the WQE's own")
	})
	t.Run("the ring", func(t *testing.T) {
		ring := make([]byte, wqe.BlockSize)
		b := wqe.Start(ring, 9)
		b.Inline(make([]byte, 45))
		_, err := b.FinishSigned(wqe.Ctrl{Opcode: wqe.OpSend})
		assert.EqualError(t, err, "wqe: SEND of 5 units, at most 4")
	})
	t.Run("no ring", func(t *testing.T) {
		assert.Panics(t, func() { wqe.Start(nil, 1) })
	})
}

// A Builder does not change padding. Clients do not clear padding either, so no test may depend
// on its bytes.
func TestBuilderLeavesPadding(t *testing.T) {
	ring := make([]byte, wqe.BlockSize)
	for i := range ring {
		ring[i] = 0xee
	}
	b := wqe.Start(ring, 0)
	b.Inline([]byte{1})
	_, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpSend})
	require.NoError(t, err)
	assert.Equal(t, unhex("8000000101"), ring[16:21])
	for _, x := range ring[21:] {
		require.EqualValues(t, 0xee, x)
	}
}

func TestPutRecv(t *testing.T) {
	d := wqe.Data{ByteCount: 1, LKey: 2, Addr: 3}
	assert.False(t, wqe.PutRecv(make([]byte, 16), []wqe.Data{d, d}), "no room")
	assert.True(t, wqe.PutRecv(nil, nil))

	b := make([]byte, 64)
	for i := range b {
		b[i] = 0xee
	}
	require.True(t, wqe.PutRecv(b, []wqe.Data{d}))
	list := wqe.RecvList(b)
	got, ok := list.Next()
	assert.True(t, ok)
	assert.Equal(t, d, got)
	_, ok = list.Next()
	assert.False(t, ok, "terminated")
	_, ok = list.Next()
	assert.False(t, ok, "and stays so")
	assert.EqualValues(t, 0xeeeeeeee, binary.BigEndian.Uint32(b[32:]), "stale after the terminator")
}

func TestNoAllocation(t *testing.T) {
	ring := make([]byte, 16*wqe.BlockSize)
	src := []byte("some inline bytes, more than one unit of them")
	copied := make([]byte, 16*wqe.BlockSize)
	var sum uint64
	allocs := testing.AllocsPerRun(100, func() {
		b := wqe.Start(ring, 15)
		b.AV(wqe.AV{CompactAV: wqe.CompactAV{Ext: true}})
		b.Raddr(wqe.Raddr{Addr: 1, RKey: 2})
		b.Inline(src, src[:5])
		b.Data(wqe.Data{ByteCount: 8, LKey: 1, Addr: 2})
		if _, err := b.FinishSigned(wqe.Ctrl{Opcode: wqe.OpRDMAWrite}); err != nil {
			t.Fatal(err)
		}
		wqe.Unwrap(copied, ring, 15)
		v, err := wqe.Parse(copied, wqe.AddressGuess)
		if err != nil {
			t.Fatal(err)
		}
		for it := v.Segments(); ; {
			s, ok := it.Next()
			if !ok {
				break
			}
			sum += uint64(s.Offset)
		}
		for list := v.Data(); ; {
			d, inline, ok := list.Next()
			if !ok {
				break
			}
			sum += d.Addr + uint64(len(inline))
		}
	})
	assert.Zero(t, allocs)
	assert.NotZero(t, sum)
}

func trim(s string) string {
	out := make([]byte, 0, len(s))
	for _, c := range []byte(s) {
		if c != ' ' {
			out = append(out, c)
		}
	}
	return string(out)
}
