package wqe_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/wqe"
)

// word returns a word of a block as the device reads it.
func word(b []byte, i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }

// unitsBefore returns how many units a short WQE of this opcode has before its data. ok is false for
// opcodes without short WQEs.
func unitsBefore(op wqe.Opcode) (before uint64, ok bool) {
	switch op {
	case wqe.OpRDMAWrite, wqe.OpRDMARead:
		return wqe.UnitsBeforeMove, true
	case wqe.OpSend, wqe.OpSendImm:
		return wqe.UnitsBeforeSend, true
	case wqe.OpAtomicCS, wqe.OpAtomicFA:
		return wqe.UnitsBeforeAtomic, true
	}
	return 0, false
}

// checkWords compares the words of a WQE on a connected transport with its segments.
func checkWords(t require.TestingT, b []byte) {
	v, err := wqe.Parse(b, wqe.NoAddress)
	require.NoError(t, err)
	op, flag := wqe.OpWord(word(b, wqe.WordOp)), wqe.FlagWord(word(b, wqe.WordFlag))
	c := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(b))
	assert.Equal(t, c, wqe.Ctrl{
		OpMod: op.OpMod(), Index: op.Index(), Opcode: op.Opcode(), QPN: op.QPN(), Rsvd: c.Rsvd, DS: uint8(op.DS()),
		Sig: flag.Sig(), Stream: flag.Stream(), Flags: flag.Flags(), Imm: flag.Imm(),
	})
	assert.Equal(t, wqe.MakeOpWord(0, c.Index, c.QPN, 0), op.Place())
	if c.OpMod == 0 && c.Rsvd == 0 {
		assert.Equal(t, op, wqe.MakeOpWord(c.Opcode, c.Index, c.QPN, c.DS))
	}
	assert.Equal(t, c.Completion(), flag.CE()>>2)
	if c.Sig == 0 && c.Stream == 0 {
		assert.Equal(t, flag, wqe.MakeFlagWord(c.Flags, c.Imm))
	}
	before, ok := unitsBefore(c.Opcode)
	if !ok {
		return
	}
	if s, ok := v.Find(wqe.KindRaddr); ok {
		r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes))
		assert.Equal(t, r.Addr, word(b, wqe.WordRAddr))
		assert.Equal(t, r.RKey, wqe.KeyWord(word(b, wqe.WordRKey)).RKey())
		assert.Equal(t, uint64(r.Rsvd), word(b, wqe.WordRKey)&uint64(wqe.MayDifferKey))
	}
	if s, ok := v.Find(wqe.KindAtomic); ok {
		assert.Equal(t, wqe.ParseAtomic((*[wqe.AtomicSize]byte)(s.Bytes)),
			wqe.Atomic{SwapAdd: word(b, wqe.WordSwapAdd), Compare: word(b, wqe.WordCompare)})
	}
	list := v.Data()
	d, inline, any := list.Next()
	_, _, more := list.Next()
	if !any {
		assert.Equal(t, int(before), op.DS(), "no data")
		return
	}
	at := map[uint64]int{wqe.UnitsBeforeMove: wqe.WordMoveData, wqe.UnitsBeforeSend: wqe.WordSendData, wqe.UnitsBeforeAtomic: wqe.WordAtomicData}[before]
	data := wqe.DataWord(word(b, at))
	assert.Equal(t, d.ByteCount, uint32(data>>32))
	assert.Equal(t, d.LKey, data.LKey())
	assert.Equal(t, d.Inline(), data.Inline())
	n, ok := wqe.AdmitShort(op, data, before, 1<<32)
	switch {
	case more || op.DS() > wqe.BlockSize/wqe.UnitSize:
		assert.False(t, ok)
	case !data.Inline():
		assert.Equal(t, wqe.MakeDataWord(d.ByteCount, d.LKey), data)
		assert.Equal(t, d.Addr, word(b, at+1))
		assert.Equal(t, uint64(d.ByteCount), n)
		assert.Equal(t, n > 0, ok, "a byte count of 0 stands for 2^31 bytes")
	default:
		require.Equal(t, len(inline), int(n))
		assert.Equal(t, n > 0, ok)
		begin := map[uint64]int{wqe.UnitsBeforeMove: wqe.MoveInlineAt, wqe.UnitsBeforeSend: wqe.SendInlineAt}[before]
		assert.Equal(t, inline, b[begin:][:n])
	}
}

// The words have the fields of the vendor's WQEs.
func TestWordsOfGoldenWQEs(t *testing.T) {
	short := 0
	vectors.Golden(t, "send_wqe", "send_wqe", func(t *testing.T, v vectors.Vector) {
		var f sendFields
		vectors.Decode(t, v.Fields, &f)
		if a := address(t, f); a == wqe.NoAddress {
			checkWords(t, v.Bytes)
			if _, ok := unitsBefore(f.Opcode); ok {
				short++
			}
		}
	})
	require.Greater(t, short, 40, "vectors with a remote address, data, or both")
	for _, file := range []string{"libmlx5-sq-rc", "libmlx5-sq-wrap", "libmlx5-sq-wr-api"} {
		recordedWQEs(t, file, func(t *testing.T, _ string, b []byte) { checkWords(t, b) })
	}
}

// The words have the fields that Builder writes.
func TestWordsOfBuiltWQEs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u8, u32, u64 := rapid.Uint8(), rapid.Uint32(), rapid.Uint64()
		c := wqe.Ctrl{
			Opcode: rapid.SampledFrom([]wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead, wqe.OpSend, wqe.OpSendImm, wqe.OpAtomicCS, wqe.OpAtomicFA}).Draw(t, "opcode"),
			QPN:    u32.Draw(t, "qpn") & 0xffffff, Flags: u8.Draw(t, "flags"), Imm: u32.Draw(t, "imm"),
		}
		index := rapid.Uint16().Draw(t, "index")
		r := wqe.Raddr{Addr: u64.Draw(t, "raddr"), RKey: u32.Draw(t, "rkey")}
		d := wqe.Data{ByteCount: u32.Draw(t, "length") &^ wqe.InlineFlag, LKey: u32.Draw(t, "lkey"), Addr: u64.Draw(t, "laddr")}
		ring := make([]byte, 4*wqe.BlockSize)
		b := wqe.Start(ring, index)
		before, _ := unitsBefore(c.Opcode)
		if before != wqe.UnitsBeforeSend {
			b.Raddr(r)
		}
		if before == wqe.UnitsBeforeAtomic {
			b.Atomic(wqe.Atomic{SwapAdd: u64.Draw(t, "swap"), Compare: u64.Draw(t, "compare")})
		}
		b.Data(d)
		_, err := b.Finish(c)
		require.NoError(t, err)
		checkWords(t, ring[int(index)%4*wqe.BlockSize:][:int(before+1)*wqe.UnitSize])
	})
}

func TestAdmitShort(t *testing.T) {
	const flag = wqe.InlineFlag
	for _, c := range []struct {
		name      string
		op        wqe.Opcode
		ds        uint8
		byteCount uint32
		most      uint64
		n         uint64
		ok        bool
	}{
		{"WRITE", wqe.OpRDMAWrite, 3, 8, 4096, 8, true},
		{"READ", wqe.OpRDMARead, 3, 8, 4096, 8, true},
		{"SEND", wqe.OpSend, 2, 8, 4096, 8, true},
		{"SEND_IMM", wqe.OpSendImm, 2, 8, 4096, 8, true},
		{"atomic", wqe.OpAtomicFA, 4, 8, 8, 8, true},
		{"the shortest", wqe.OpRDMAWrite, 3, 1, 4096, 1, true},
		{"the longest", wqe.OpRDMAWrite, 3, 4096, 4096, 4096, true},
		{"too long", wqe.OpRDMAWrite, 3, 4097, 4096, 4097, false},
		{"2^31 bytes", wqe.OpRDMAWrite, 3, 0, 1 << 32, 0, false},
		{"no data segment", wqe.OpRDMAWrite, 2, 8, 4096, 8, false},
		{"two data segments", wqe.OpRDMAWrite, 4, 8, 4096, 8, false},
		{"a data segment in the next block", wqe.OpRDMAWrite, 5, 8, 4096, 8, false},
		{"SEND with two data segments", wqe.OpSend, 3, 8, 4096, 8, false},
		{"atomic with two results", wqe.OpAtomicFA, 5, 8, 8, 8, false},
		{"atomic without a result", wqe.OpAtomicCS, 3, 8, 8, 8, false},
		{"atomic of 16 bytes", wqe.OpAtomicFA, 4, 16, 8, 16, false},

		{"inline WRITE", wqe.OpRDMAWrite, 3, flag | 12, 4096, 12, true},
		{"inline WRITE of two units", wqe.OpRDMAWrite, 4, flag | 13, 4096, 13, true},
		{"the longest inline WRITE", wqe.OpRDMAWrite, 4, flag | wqe.MoveInlineMost, 4096, wqe.MoveInlineMost, true},
		{"an inline WRITE of two blocks", wqe.OpRDMAWrite, 5, flag | (wqe.MoveInlineMost + 1), 4096, wqe.MoveInlineMost + 1, false},
		{"inline SEND", wqe.OpSend, 2, flag | 12, 4096, 12, true},
		{"the longest inline SEND", wqe.OpSendImm, 4, flag | wqe.SendInlineMost, 4096, wqe.SendInlineMost, true},
		{"an inline SEND of two blocks", wqe.OpSend, 5, flag | (wqe.SendInlineMost + 1), 4096, wqe.SendInlineMost + 1, false},
		{"inline READ", wqe.OpRDMARead, 3, flag | 8, 4096, 8, false},
		{"inline atomic", wqe.OpAtomicFA, 4, flag | 8, 8, 8, false},
		{"inline data longer than allowed", wqe.OpSend, 2, flag | 8, 7, 8, false},
		{"inline without bytes", wqe.OpRDMAWrite, 3, flag, 4096, 0, false},
		{"inline, DS too small", wqe.OpRDMAWrite, 3, flag | 13, 4096, 13, false},
		{"inline, DS too large", wqe.OpRDMAWrite, 4, flag | 12, 4096, 12, false},
		{"inline, the greatest length", wqe.OpRDMAWrite, 3, 1<<32 - 1, 1 << 32, 1<<31 - 1, false},
		{"inline, a length that would wrap in DS", wqe.OpRDMAWrite, 4, flag | 1<<30 | 28, 1 << 32, 1<<30 | 28, false},
	} {
		before, known := unitsBefore(c.op)
		require.True(t, known)
		n, ok := wqe.AdmitShort(wqe.MakeOpWord(c.op, 0xffff, 0xffffff, c.ds), wqe.MakeDataWord(c.byteCount, 0xffffffff), before, c.most)
		assert.Equal(t, c.n, n, c.name)
		assert.Equal(t, c.ok, ok, c.name)
	}
}

// The WQEs of a series may differ in some bits. All other bits of these words must be as in the first.
func TestUnlike(t *testing.T) {
	op, data := wqe.MakeOpWord(wqe.OpRDMAWrite, 0xffff, 0x102, 3), wqe.MakeDataWord(8, 0x1200)
	next := op.Next()
	require.Equal(t, wqe.MakeOpWord(wqe.OpRDMAWrite, 0, 0x102, 3), next, "the index has 16 bits")
	const all = ^wqe.MayDifferPointer
	require.Zero(t, wqe.Unlike(next, next, 0, data, data, all))
	for i := range 64 {
		bit := uint64(1) << i
		assert.NotZero(t, wqe.Unlike(next^wqe.OpWord(bit), next, 0, data, data, all), "bit %d of the first word", i)
		assert.NotZero(t, wqe.Unlike(next, next, 0, data^wqe.DataWord(bit), data, all), "bit %d of a pointer", i)
		signaled := wqe.MakeFlagWord(wqe.CEAlways, 0) == wqe.FlagWord(bit)
		assert.Equal(t, signaled, wqe.FlagWord(bit).Plain())
		assert.Equal(t, signaled, wqe.Unlike(next, next, wqe.FlagWord(bit), data, data, all) == 0, "bit %d of the second word", i)
		payload := i < 32
		assert.Equal(t, payload, wqe.Unlike(next, next, 0, data^wqe.DataWord(bit), data, ^wqe.MayDifferInline) == 0, "bit %d of inline data", i)
	}
}
