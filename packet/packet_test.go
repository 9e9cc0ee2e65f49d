package packet_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/packet"
)

// Fields that no recorded packet has set. The bytes are from the layouts of the specification.
func TestBytes(t *testing.T) {
	for _, row := range []struct {
		name  string
		set   headerSet
		bytes string
	}{
		{"all bits of the BTH", headerSet{BTH: packet.BTH{
			Opcode: 0xff, Solicited: true, Migrated: true, Pad: 3, Version: 15, PKey: 0x8001,
			FECN: true, BECN: true, Reserved6: 0x3f, DestQP: 0xabcdef, AckReq: true, Reserved7: 0x7f, PSN: 0x123456,
		}}, "ff ff 8001 ff abcdef ff 123456"},
		{"FECN only", headerSet{BTH: packet.BTH{Opcode: 4, FECN: true}}, "04 00 0000 80 000000 00 000000"},
		{"BECN only", headerSet{BTH: packet.BTH{Opcode: 0x81, BECN: true}}, "81 00 0000 40 000000 00 000000"},
		{"reserved bits only", headerSet{BTH: packet.BTH{Opcode: 4, Reserved6: 1, Reserved7: 1}}, "04 00 0000 01 000000 01 000000"},
		{"XRC WRITE with immediate", headerSet{
			BTH:    packet.BTH{Opcode: packet.MakeOpcode(packet.XRC, packet.WriteOnlyImm), PKey: 0xffff, DestQP: 0x11, AckReq: true, PSN: 7},
			XRCETH: &packet.XRCETH{Reserved: 0x80, SRQN: 0x000203},
			RETH:   &packet.RETH{Addr: 0x0102030405060708, RKey: 0x090a0b0c, Length: 0x0d0e0f10},
			Imm:    new(packet.ImmDt(0xcafe0001)),
		}, "ab 00 ffff 00 000011 80 000007  80 000203  0102030405060708 090a0b0c 0d0e0f10  cafe0001"},
		{"XRC atomic, the longest", headerSet{
			BTH:       packet.BTH{Opcode: packet.MakeOpcode(packet.XRC, packet.FetchAdd)},
			XRCETH:    &packet.XRCETH{SRQN: 1},
			AtomicETH: &packet.AtomicETH{Addr: 2, RKey: 3, SwapAdd: 4, Compare: 5},
		}, "b4 00 0000 00 000000 00 000000  00 000001  0000000000000002 00000003 0000000000000004 0000000000000005"},
		{"XRC masked atomic", headerSet{
			BTH:    packet.BTH{Opcode: packet.MakeOpcode(packet.XRC, packet.MaskedCompareSwap), AckReq: true},
			XRCETH: &packet.XRCETH{SRQN: 1},
			RETH:   &packet.RETH{Addr: 2, RKey: 3, Length: 8},
		}, "b8 00 0000 00 000000 80 000000  00 000001  0000000000000002 00000003 00000008"},
		{"RC masked atomic", headerSet{
			BTH:  packet.BTH{Opcode: packet.MakeOpcode(packet.RC, packet.MaskedFetchAdd)},
			RETH: &packet.RETH{Addr: 2, RKey: 3, Length: 4},
		}, "19 00 0000 00 000000 00 000000  0000000000000002 00000003 00000004"},
		{"XRC answer has no XRCETH", headerSet{
			BTH:  packet.BTH{Opcode: packet.MakeOpcode(packet.XRC, packet.Acknowledge)},
			AETH: &packet.AETH{Syndrome: packet.NAKRemoteAccess, MSN: 9},
		}, "b1 00 0000 00 000000 00 000000  62 000009"},
		{"reserved byte of the DETH", headerSet{
			BTH:  packet.BTH{Opcode: 0x65},
			DETH: &packet.DETH{QKey: 0x80010000, Reserved: 0xa5, SrcQP: 0x000102},
			Imm:  new(packet.ImmDt(1)),
		}, "65 00 0000 00 000000 00 000000  80010000 a5 000102  00000001"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, err := hex.DecodeString(strings.ReplaceAll(row.bytes, " ", ""))
			require.NoError(t, err)
			assert.Equal(t, b, row.set.put(), "Put")
			assert.Equal(t, row.set, parseHeaders(b), "Parse")
		})
	}
}

// PutBTH writes what Put writes, of the fields that a device sets.
func TestPutBTH(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		h := packet.BTH{
			Opcode: packet.Opcode(rnd.Uint32()), Solicited: rnd.Uint32()&1 != 0, Migrated: true, Pad: uint8(rnd.Uint32()),
			PKey: uint16(rnd.Uint32()), DestQP: rnd.Uint32(), AckReq: rnd.Uint32()&1 != 0, PSN: rnd.Uint32(),
		}
		var want, got [packet.BTHSize]byte
		h.Put(&want)
		packet.PutBTH(&got, h.Opcode, h.Solicited, h.Pad, h.PKey, h.DestQP, h.AckReq, h.PSN)
		require.Equal(t, want, got)
	}
}

// Put drops bits beyond the width of a field, so that no field changes its neighbour.
func TestPutDropsExcessBits(t *testing.T) {
	var bth, want [packet.BTHSize]byte
	packet.BTH{Pad: 4, Version: 16, Reserved6: 64, DestQP: 1 << 24, Reserved7: 128, PSN: 1 << 24}.Put(&bth)
	assert.Equal(t, want, bth)
	var deth [packet.DETHSize]byte
	packet.DETH{SrcQP: 1 << 24}.Put(&deth)
	assert.Zero(t, deth)
	var aeth [packet.AETHSize]byte
	packet.AETH{MSN: 1 << 24}.Put(&aeth)
	assert.Zero(t, aeth)
	var xrc [packet.XRCETHSize]byte
	packet.XRCETH{SRQN: 1 << 24}.Put(&xrc)
	assert.Zero(t, xrc)
	assert.Equal(t, packet.Opcode(0x20), packet.MakeOpcode(9, 32))
}

// The table has each operation on the services that the specification gives it, and its
// offsets leave no gap.
func TestOpcodeTable(t *testing.T) {
	known, longest := map[packet.Service]int{}, 0
	names := map[string]bool{}
	for o := range 256 {
		op := packet.Opcode(o)
		i := op.Info()
		require.Equal(t, op, packet.MakeOpcode(op.Service(), op.Operation()))
		if !i.Known {
			require.Equal(t, packet.Info{HeaderSize: packet.BTHSize}, *i)
			require.Equal(t, fmt.Sprintf("opcode 0x%02x", o), op.String())
			continue
		}
		known[op.Service()]++
		longest = max(longest, i.HeaderSize)
		require.False(t, names[i.Name], "name %s is given twice", i.Name)
		names[i.Name] = true
		at := packet.BTHSize
		for _, h := range []struct {
			has  bool
			off  uint8
			size int
		}{
			{i.XRCETH, i.OffXRCETH, packet.XRCETHSize}, {i.DETH, i.OffDETH, packet.DETHSize},
			{i.RETH, i.OffRETH, packet.RETHSize}, {i.AtomicETH, i.OffAtomicETH, packet.AtomicETHSize},
			{i.AETH, i.OffAETH, packet.AETHSize}, {i.AtomicAck, i.OffAtomicAck, packet.AtomicAckETHSize},
			{i.Imm, i.OffImm, packet.ImmDtSize}, {i.IETH, i.OffIETH, packet.IETHSize},
		} {
			if h.has {
				require.EqualValues(t, at, h.off, i.Name)
				at += h.size
			} else {
				require.Zero(t, h.off, i.Name)
			}
		}
		require.Equal(t, at, i.HeaderSize, i.Name)
		require.Equal(t, op == packet.OpCNP, !i.Request && !i.Response, i.Name)
		require.False(t, i.Request && i.Response, i.Name)
	}
	require.Equal(t, map[packet.Service]int{packet.RC: 26, packet.UC: 12, packet.UD: 2, packet.CNP: 1, packet.XRC: 26}, known)
	require.Equal(t, packet.MaxHeaders, longest)
}

// Facts of opcodes that no recorded packet shows: which packets begin and end a message, and
// which side sends them.
func TestOpcodeFacts(t *testing.T) {
	for _, row := range []struct {
		op                             packet.Operation
		first, last, request, response bool
	}{
		{packet.SendFirst, true, false, true, false},
		{packet.SendMiddle, false, false, true, false},
		{packet.SendLast, false, true, true, false},
		{packet.SendLastImm, false, true, true, false},
		{packet.SendLastInv, false, true, true, false},
		{packet.SendOnly, true, true, true, false},
		{packet.SendOnlyImm, true, true, true, false},
		{packet.SendOnlyInv, true, true, true, false},
		{packet.WriteFirst, true, false, true, false},
		{packet.WriteMiddle, false, false, true, false},
		{packet.WriteLast, false, true, true, false},
		{packet.WriteLastImm, false, true, true, false},
		{packet.WriteOnly, true, true, true, false},
		{packet.WriteOnlyImm, true, true, true, false},
		{packet.ReadRequest, true, true, true, false},
		{packet.CompareSwap, true, true, true, false},
		{packet.FetchAdd, true, true, true, false},
		{packet.MaskedCompareSwap, true, true, true, false},
		{packet.MaskedFetchAdd, true, true, true, false},
		{packet.ReadResponseFirst, true, false, false, true},
		{packet.ReadResponseMiddle, false, false, false, true},
		{packet.ReadResponseLast, false, true, false, true},
		{packet.ReadResponseOnly, true, true, false, true},
		{packet.Acknowledge, true, true, false, true},
		{packet.AtomicAcknowledge, true, true, false, true},
	} {
		for _, s := range []packet.Service{packet.RC, packet.XRC} {
			i := packet.MakeOpcode(s, row.op).Info()
			require.True(t, i.Known, row.op)
			assert.Equal(t, []bool{row.first, row.last, row.request, row.response}, []bool{i.First, i.Last, i.Request, i.Response}, i.Name)
			assert.Equal(t, s == packet.XRC && row.request, i.XRCETH, i.Name)
			assert.Equal(t, s.String()+"_"+row.op.String(), i.Name)
		}
	}
	assert.Equal(t, "RD", packet.RD.String())
	assert.Equal(t, "service 6", packet.Service(6).String())
	assert.Equal(t, "operation 21", packet.Operation(21).String())
	assert.Equal(t, "operation 32", packet.Operation(32).String())
	assert.Equal(t, "CNP", packet.OpCNP.String())
}

func TestPSN(t *testing.T) {
	assert.Equal(t, uint32(0), packet.AddPSN(0xffffff, 1))
	assert.Equal(t, uint32(0xfffffe), packet.AddPSN(0xffffff, 0xffffff))
	assert.Equal(t, uint32(5), packet.AddPSN(0xff000002, 3), "bits above 24 do not count")
	for _, row := range []struct {
		a, b uint32
		want int32
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, 0xffffff, 1}, {0xffffff, 0, -1},
		{0x7fffff, 0, 0x7fffff}, {0, 0x7fffff, -0x7fffff}, {0x800000, 0, -0x800000}, {0x800001, 0, -0x7fffff},
		{0xff000001, 0x01000000, 1},
	} {
		assert.Equal(t, row.want, packet.DiffPSN(row.a, row.b), "%#x - %#x", row.a, row.b)
	}
}

// The codes of the RNR timer mean the times in the specification's table.
func TestRNRTimerCodes(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 2: 20 * time.Microsecond, 5: 60 * time.Microsecond,
		12: 640 * time.Microsecond, 16: 2560 * time.Microsecond, 24: 40960 * time.Microsecond, 31: 491520 * time.Microsecond,
		32: 655360 * time.Microsecond,
	} {
		require.Equal(t, want, packet.RNRTimer(code), "code %d", code)
	}
}

// Syndromes that no recorded packet has.
func TestSyndromes(t *testing.T) {
	for syndrome, want := range map[uint8]string{
		packet.SyndromeACK: "ACK", 0x05: "ACK, credit count 5", packet.SyndromeRNR | 1: "RNR NAK, timer 1 (10µs)",
		packet.NAKSequence: "NAK: PSN sequence error", packet.NAKInvalidRequest: "NAK: invalid request",
		packet.NAKRemoteAccess: "NAK: remote access error", packet.NAKRemoteOperation: "NAK: remote operation error",
		packet.NAKInvalidRD: "NAK: invalid RD request", packet.SyndromeNAK | 5: "NAK, code 5",
		0x40: "reserved syndrome 0x40", 0x9f: "reserved syndrome 0x9f", 0xe0: "reserved syndrome 0xe0",
	} {
		assert.Equal(t, want, packet.AETH{Syndrome: syndrome}.String())
	}
	assert.False(t, packet.AETH{Syndrome: 0x9f}.ACK(), "bit 7 is set")
}

// ParsePlain agrees with Parse, and with what PutBTH writes.
func TestParsePlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	plain := 0
	for range 100_000 {
		var b [packet.BTHSize]byte
		packet.PutBTH(&b, packet.Opcode(rng.Uint32()), false, 0, 0xffff, rng.Uint32(), false, rng.Uint32())
		if rng.IntN(2) == 0 {
			packet.AskForAck(b[:])
		}
		if i := rng.IntN(8 * packet.BTHSize * 2); i < 8*packet.BTHSize {
			b[i/8] ^= 1 << (i % 8)
		}
		h := packet.ParseBTH(&b)
		op, qpn, ask, psn, ok := packet.ParsePlain(&b)
		want := !h.Solicited && h.Pad == 0 && h.Version == 0 && h.PKey == 0xffff && !h.FECN && !h.BECN && h.Reserved6 == 0 && h.Reserved7 == 0
		require.Equal(t, want, ok, "% x", b)
		if ok {
			plain++
			require.Equal(t, []any{h.Opcode, h.DestQP, h.AckReq, h.PSN}, []any{op, qpn, ask, psn}, "% x", b)
		}
	}
	require.Greater(t, plain, 10_000)
}
