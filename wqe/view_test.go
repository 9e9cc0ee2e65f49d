package wqe_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/wqe"
)

// build makes a WQE in zeroed memory and returns the bytes of its units.
func build(t *testing.T, c wqe.Ctrl, lay func(*wqe.Builder)) []byte {
	t.Helper()
	ring := make([]byte, 16*wqe.BlockSize)
	b := wqe.Start(ring, 0)
	lay(&b)
	_, err := b.Finish(c)
	require.NoError(t, err)
	return ring[:int(wqe.ParseCtrl((*[wqe.CtrlSize]byte)(ring)).DS)*wqe.UnitSize]
}

func kinds(v *wqe.View) string {
	var names []string
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok {
			return strings.Join(names, " ")
		}
		names = append(names, s.Kind.String())
	}
}

var (
	aData  = wqe.Data{ByteCount: 64, LKey: 0x1200, Addr: 0x7f0000001000}
	aRaddr = wqe.Raddr{Addr: 0x7f0000002000, RKey: 0x3400}
	aFull  = wqe.AV{CompactAV: wqe.CompactAV{Key: wqe.UDKey(0x1111), Ext: true, DQP: 7}}
	aShort = wqe.CompactAV{Key: 0x1122334455667788, DQP: 7, RLID: 9}
)

// Layouts that no golden vector has.
func TestParseLayouts(t *testing.T) {
	list := func(b *wqe.Builder, flags uint8, octowords uint16, mask uint64) {
		b.UMRCtrl(wqe.UMRCtrl{Flags: flags, KLMOctowords: octowords, MkeyMask: mask})
		b.MkeyContext(wqe.MkeyContext{})
	}
	for _, c := range []struct {
		name string
		ctrl wqe.Ctrl
		addr wqe.Address
		lay  func(*wqe.Builder)
		want string
	}{
		{"DC, compact address", wqe.Ctrl{Opcode: wqe.OpRDMAWrite}, wqe.AddressDC,
			func(b *wqe.Builder) { b.CompactAV(aShort); b.Raddr(aRaddr); b.Data(aData) }, "av raddr data"},
		{"UD with offloads", wqe.Ctrl{Opcode: wqe.OpSend}, wqe.AddressUDEth,
			func(b *wqe.Builder) { b.AV(aFull); b.Eth(wqe.Eth{CSFlags: wqe.EthL3Csum}, nil); b.Data(aData) }, "av eth data"},
		{"TSO", wqe.Ctrl{Opcode: wqe.OpTSO}, wqe.AddressEth,
			func(b *wqe.Builder) { b.Eth(wqe.Eth{MSS: 1400}, make([]byte, 54)); b.Data(aData) }, "eth data"},
		{"VLAN insertion has no inline header", wqe.Ctrl{Opcode: wqe.OpSend}, wqe.AddressEth,
			func(b *wqe.Builder) {
				b.Eth(wqe.Eth{HdrSize: wqe.EthInsertVLAN, Hdr: [2]byte{0, 5}}, nil)
				b.Data(aData)
			}, "eth data"},
		{"WAIT on data", wqe.Ctrl{Opcode: wqe.OpWait, OpMod: wqe.OpModWaitData}, wqe.NoAddress,
			func(b *wqe.Builder) { b.WaitData(wqe.WaitData{Op: 1, Mask: 1}) }, "wait_data"},
		{"WAIT of an unknown kind", wqe.Ctrl{Opcode: wqe.OpWait, OpMod: 9}, wqe.NoAddress,
			func(b *wqe.Builder) { b.Raw(make([]byte, 32)) }, "raw"},
		{"tag matching", wqe.Ctrl{Opcode: wqe.OpTagMatching}, wqe.NoAddress,
			func(b *wqe.Builder) { b.TagMatching(wqe.TagMatching{Op: wqe.TagAppend}) }, "tag_matching"},
		{"MMO that is no copy", wqe.Ctrl{Opcode: wqe.OpMMO, OpMod: 2}, wqe.NoAddress,
			func(b *wqe.Builder) { b.Raw(make([]byte, 48)) }, "raw"},
		{"GET_PSV has no public layout", wqe.Ctrl{Opcode: wqe.OpGetPSV}, wqe.NoAddress,
			func(b *wqe.Builder) { b.Raw(make([]byte, 16)) }, "raw"},
		{"an undefined opcode", wqe.Ctrl{Opcode: 0x77}, wqe.AddressUD,
			func(b *wqe.Builder) { b.Raw(make([]byte, 16)) }, "raw"},
		{"SET_PSV with a unit too many", wqe.Ctrl{Opcode: wqe.OpSetPSV}, wqe.NoAddress,
			func(b *wqe.Builder) { b.SetPSV(wqe.SetPSV{}); b.Raw(make([]byte, 16)) }, "set_psv unused"},
		{"UMR whose list is elsewhere", wqe.Ctrl{Opcode: wqe.OpUMR}, wqe.NoAddress,
			func(b *wqe.Builder) { list(b, 0, 4, 0); b.Data(aData) }, "umr_ctrl mkey_context data"},
		{"UMR with a BSF", wqe.Ctrl{Opcode: wqe.OpUMR}, wqe.NoAddress,
			func(b *wqe.Builder) {
				list(b, wqe.UMRInline, 4, wqe.MaskBSFEnable)
				b.KLM(wqe.KLM{ByteCount: 1})
				b.Pad()
				b.Raw(make([]byte, 64))
			}, "umr_ctrl mkey_context klm pad raw"},
		{"UMR with key 0x400 in a KLM", wqe.Ctrl{Opcode: wqe.OpUMR}, wqe.NoAddress,
			func(b *wqe.Builder) {
				list(b, wqe.UMRInline, 4, 0)
				b.KLM(wqe.KLM{ByteCount: 1, MKey: wqe.RepeatOp, Addr: 0x7f0000000000})
				b.Pad()
			}, "umr_ctrl mkey_context klm pad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := build(t, c.ctrl, c.lay)
			v, err := wqe.Parse(b, c.addr)
			require.NoError(t, err)
			assert.Equal(t, c.want, kinds(&v))
			assert.Equal(t, b, reencode(&v, b), "parsed and encoded again")
			tree, err := wqe.DescribeSend(b, c.addr)
			require.NoError(t, err)

			// The values in the description encode to the same bytes.
			if strings.Contains(c.want, "raw") || strings.Contains(c.want, "unused") || strings.HasPrefix(c.name, "VLAN") {
				return // the description has bytes without a name, which are for people only
			}
			raw, err := json.Marshal(tree)
			require.NoError(t, err)
			var f sendFields
			require.NoError(t, json.Unmarshal(raw, &f))
			ring := make([]byte, 16*wqe.BlockSize)
			encodeSend(t, f, ring)
			assert.Equal(t, b, ring[:len(b)], "described and encoded")
		})
	}
}

func TestParseErrors(t *testing.T) {
	cut := func(op wqe.Opcode, opmod, ds uint8) []byte { return sendWQE(op, opmod, ds) }
	for _, c := range []struct {
		name string
		b    []byte
		addr wqe.Address
		want string
	}{
		{"nothing", nil, 0, "wqe: NOP, byte 0: length is 0, allowed: at least 16, the control segment"},
		{"ds 0", make([]byte, 16), 0, "wqe: NOP, byte 7: ds is 0, allowed: 1 to 1"},
		{"ds past the bytes", cut(wqe.OpSend, 0, 4)[:48], 0, "wqe: SEND, byte 7: ds is 4, allowed: 1 to 3"},
		{"no remote address", cut(wqe.OpRDMAWrite, 0, 1), 0,
			"wqe: RDMA_WRITE, byte 16: room for the raddr segment is 0, allowed: at least 16 bytes"},
		{"no operand", cut(wqe.OpAtomicCS, 0, 2), 0,
			"wqe: ATOMIC_CS, byte 32: room for the atomic segment is 0, allowed: at least 16 bytes"},
		{"half an operand", cut(wqe.OpAtomicMaskedCS, 9, 3), 0,
			"wqe: ATOMIC_MASKED_CS, byte 32: room for the masked_cs segment is 16, allowed: at least 32 bytes"},
		{"operand size", cut(wqe.OpAtomicMaskedFA, 10, 4), 0,
			"wqe: ATOMIC_MASKED_FA, byte 0: opmod is 10, allowed: 8 (4 bytes), 9 or 0 (8 bytes)"},
		{"inline data past the end", withInline(0x80000000|29, 3), 0,
			"wqe: SEND, byte 16: inline length is 29, allowed: at most 28"},
		{"inline header past the end", append(cut(wqe.OpSend, 0, 2)[:28], 0, 3, 0, 0), wqe.AddressEth,
			"wqe: SEND, byte 28: inline_hdr_sz is 3, allowed: at most 2"},
		{"no XRC segment", cut(wqe.OpSend, 0, 1), wqe.AddressXRC,
			"wqe: SEND, byte 16: room for the xrc segment is 0, allowed: at least 16 bytes"},
		{"half an mkey context", cut(wqe.OpUMR, 0, 7), 0,
			"wqe: UMR, byte 64: room for the mkey_context segment is 48, allowed: at least 64 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := wqe.Parse(c.b, c.addr)
			assert.EqualError(t, err, c.want)
		})
	}
	_, err := wqe.DescribeRecv(make([]byte, 48), false)
	assert.ErrorContains(t, err, "stride is 48, allowed: a power of two from 16")
	_, err = wqe.DescribeRecv(make([]byte, 16), true)
	assert.ErrorContains(t, err, "stride is 16, allowed: a power of two from 32")
}

// Guess finds the address of WQEs like those that clients write.
func TestGuess(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	virtual := func() uint64 { return rnd.Uint64() & 0x7fff_ffff_ffff }
	key := func() uint32 { return rnd.Uint32()&0xffff<<8 | 0x100 }
	for range 2000 {
		a := wqe.Address(rnd.IntN(int(wqe.AddressGuess)))
		op := wqe.OpSend
		if a <= wqe.AddressXRC && a != wqe.AddressUD && rnd.IntN(2) == 0 {
			op = wqe.OpRDMAWriteImm
		}
		b := build(t, wqe.Ctrl{Opcode: op, Imm: rnd.Uint32()}, func(b *wqe.Builder) {
			av := wqe.AV{CompactAV: wqe.CompactAV{Ext: true, DQP: rnd.Uint32() & 0xffffff, RLID: uint16(rnd.Uint32())}}
			switch a {
			case wqe.AddressUD:
				av.Key = wqe.UDKey(rnd.Uint32())
				b.AV(av)
			case wqe.AddressUDEth:
				av.Key = wqe.UDKey(rnd.Uint32())
				b.AV(av)
				b.Eth(wqe.Eth{CSFlags: wqe.EthL4Csum}, nil)
			case wqe.AddressDC:
				av.Key = rnd.Uint64() | 1
				b.AV(av)
			case wqe.AddressXRC:
				b.XRC(wqe.XRC{SRQN: rnd.Uint32()&0xffffff | 1})
			case wqe.AddressEth:
				b.Eth(wqe.Eth{}, make([]byte, rnd.IntN(20)))
			}
			if op == wqe.OpRDMAWriteImm {
				b.Raddr(wqe.Raddr{Addr: virtual(), RKey: key()})
			}
			for range 1 + rnd.IntN(4) {
				if rnd.IntN(3) == 0 {
					b.Inline(make([]byte, rnd.IntN(40)))
				} else {
					b.Data(wqe.Data{ByteCount: 1 + rnd.Uint32()>>8, LKey: key(), Addr: virtual()})
				}
			}
		})
		v, err := wqe.Parse(b, wqe.AddressGuess)
		require.NoError(t, err)
		require.Equal(t, a, v.Address, "%x", b)
	}
}

func TestFind(t *testing.T) {
	b := build(t, wqe.Ctrl{Opcode: wqe.OpAtomicFA}, func(b *wqe.Builder) {
		b.Raddr(aRaddr)
		b.Atomic(wqe.Atomic{SwapAdd: 5})
		b.Data(aData)
	})
	v, err := wqe.Parse(b, wqe.NoAddress)
	require.NoError(t, err)
	s, ok := v.Find(wqe.KindAtomic)
	require.True(t, ok)
	assert.Equal(t, 32, s.Offset)
	assert.Equal(t, wqe.Atomic{SwapAdd: 5}, wqe.ParseAtomic((*[wqe.AtomicSize]byte)(s.Bytes)))
	_, ok = v.Find(wqe.KindXRC)
	assert.False(t, ok)
}

func TestDataListStopsAtAnOverrun(t *testing.T) {
	b := withInline(0x80000000|29, 3)
	list := wqe.DataList(b[wqe.CtrlSize:])
	_, _, ok := list.Next()
	assert.False(t, ok)
	assert.Len(t, list, 32, "what could not be read is left")
}
