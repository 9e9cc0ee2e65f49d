package cqe

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// For each small size and each initial fill of a ring, a device writes entries for more than
// three laps, without reading the ring, and a poller takes them.
func TestOwnerAcrossLaps(t *testing.T) {
	for _, fill := range []OpOwn{0xf0, 0xf1, 0xff} {
		for log := range uint(4) {
			ring := make([]OpOwn, 1<<log)
			for i := range ring {
				ring[i] = fill
			}
			var pi, ci uint64
			for range 4 << log {
				for burst := pi%3 + 1; burst > 0 && pi-ci < 1<<log; burst-- {
					ring[Slot(pi, log)] = MakeOpOwn(RespSend, FormatPlain, pi%2 == 0, Owner(pi, log))
					pi++
				}
				for ; Valid(ring[Slot(ci, log)], ci, log); ci++ {
					require.Less(t, ci, pi, "polled what was never written: fill %#x log %d", fill, log)
				}
				require.Equal(t, pi, ci, "missed an entry: fill %#x log %d", fill, log)
			}
			require.GreaterOrEqual(t, ci, uint64(3<<log))
		}
	}
}

func TestOwnerAtTheWidthsOfCounters(t *testing.T) {
	for _, c := range []struct {
		name  string
		index uint64
		log   uint
		owner uint8
	}{
		{"one entry toggles", 7, 0, 1},
		{"last of lap 0", 15, 4, 0},
		{"first of lap 1", 16, 4, 1},
		{"24-bit index wraps", 1 << 24, 4, 0},
		{"largest ring, lap 1", 1 << 22, 22, 1},
		{"beyond 32 bits", 1<<40 + 1<<22, 22, 1},
	} {
		require.Equal(t, c.owner, Owner(c.index, c.log), c.name)
	}
	require.EqualValues(t, 0x01, Iteration(0x101<<4, 4), "iteration counts wrap at 8 bits")
}

// The low bits of op_own in an error entry can have any value.
func TestOpOwnParts(t *testing.T) {
	for i := range 256 {
		o := OpOwn(i)
		require.Equal(t, o, MakeOpOwn(o.Opcode(), o.Format(), o.Solicited(), o.Owner()))
	}
	require.Equal(t, ReqErr, OpOwn(0xd3).Opcode())
	require.True(t, OpOwn(0xd3).Solicited())
	require.True(t, OpOwn(0xd3).Opcode().IsError())
	require.False(t, OpOwn(0xc0).Opcode().IsError(), "a signature error belongs to an mkey")
	require.Equal(t, "RESP_SEND_INV", RespSendInv.String())
	require.Equal(t, "opcode 7", Opcode(7).String())
	require.Equal(t, "opcode 16", Opcode(16).String())
}

func TestWorkError(t *testing.T) {
	var b [Size]byte
	PutErr(&b, 0xabc, 1, opRDMARead, 7, RemoteAccess, 0x88, MakeOpOwn(ReqErr, FormatPlain, false, 0))
	w := ParseWC(&b)
	err := w.Err(42)
	require.EqualError(t, err, "qp 0x000abc wqe 7 id 42: remote access error (vendor 0x88)")
	require.ErrorIs(t, err, RemoteAccess)
	require.NotErrorIs(t, err, Flush)
	var we *WorkError
	require.True(t, errors.As(err, &we))
	require.Equal(t, WorkError{QPN: 0xabc, Index: 7, Opcode: opRDMARead, Cause: RemoteAccess, Vendor: 0x88, ID: 42}, *we)

	PutErr(&b, 0xabc, 1, 0, 3, LocalLength, 0, MakeOpOwn(RespErr, FormatPlain, false, 0))
	w = ParseWC(&b)
	require.EqualError(t, w.Err(5), "qp 0x000abc receive 3 id 5: local length error (vendor 0x00)")

	PutReq(&b, 0xabc, 1, opRDMARead, 7, 8, 0, MakeOpOwn(Req, FormatPlain, false, 0))
	w = ParseWC(&b)
	require.NoError(t, w.Err(42))
	w = WC{Status: StatusNone}
	require.NoError(t, w.Err(42), "no completion is no failure")
}

func TestUnknownSyndrome(t *testing.T) {
	s := Syndrome(0x7f)
	require.EqualError(t, s, "unknown error, syndrome 0x7f")
	require.Equal(t, "Syndrome(0x7f)", s.Name())
	require.Equal(t, StatusGeneral, s.Status())
	require.Equal(t, StatusGeneral, Syndrome(0).Status(), "an error entry is never a success")
	require.Equal(t, "RNRRetry", RNRRetry.Name())
	require.Equal(t, "status 99", WCStatus(99).String())
}

func TestWCNames(t *testing.T) {
	for op, name := range map[WCOpcode]string{
		WCSend: "SEND", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV", WCTSO: "TSO",
		WCRecvRDMAImm: "RECV_RDMA_WITH_IMM", WCFromPost: "from_post", 77: "opcode 77",
	} {
		require.Equal(t, name, op.String())
	}
}

func TestInlineNeverRunsPastItsFormat(t *testing.T) {
	slot := new([Size128]byte)
	for i := range slot {
		slot[i] = byte(i)
	}
	first, entry := Halves(slot)
	put := func(op Opcode, f Format, n uint32) {
		c := ParseCQE(entry)
		c.OpOwn, c.ByteCount = MakeOpOwn(op, f, false, 0), n
		c.Put(entry)
	}
	for _, c := range []struct {
		name string
		op   Opcode
		f    Format
		n    uint32
		want []byte
		ok   bool
	}{
		{"plain", RespSend, FormatPlain, 8, nil, true},
		{"compressed", RespSend, FormatCompressed, 8, nil, true},
		{"an error carries none", RespErr, FormatInline32, 8, nil, true},
		{"an unwritten entry carries none", Invalid, FormatInline64, 8, nil, true},
		{"32, empty", RespSend, FormatInline32, 0, entry[:0], true},
		{"32, full", RespSend, FormatInline32, 32, entry[:32], true},
		{"32, too much", RespSend, FormatInline32, 33, entry[:32], false},
		{"64, one byte", Req, FormatInline64, 1, first[:1], true},
		{"64, full", Req, FormatInline64, 64, first[:], true},
		{"64, far too much", Req, FormatInline64, 1 << 31, first[:], false},
	} {
		put(c.op, c.f, c.n)
		data, ok := Inline128(slot)
		require.Equal(t, c.want, data, c.name)
		require.Equal(t, c.ok, ok, c.name)
	}
	put(RespSend, FormatInline64, 8)
	data, ok := Inline(entry)
	require.Empty(t, data, "a 64-byte entry has no first half")
	require.True(t, ok)
}

func TestFlagsRQPN(t *testing.T) {
	require.EqualValues(t, 0x13000abc, FlagsRQPN(GRHInBuffer, 3, 0xabc))
	require.EqualValues(t, 0x2fffffff, FlagsRQPN(GRHInCQE, 0xff, 0xffffffff), "each part is cut to its width")
}

func TestNothingAllocates(t *testing.T) {
	var b, out [Size]byte
	var w WC
	var sum int
	PutResp(&b, 1, 2, 3, 4, 5, 6, 7, MakeOpOwn(RespSendImm, FormatInline32, true, 1))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		PutReq(&out, 1, 2, 3, 4, 5, 6, 0)
		PutErr(&out, 1, 2, 3, 4, Flush, 6, 0xd0)
		c := ParseCQE(&b)
		c.Put(&out)
		e := ParseErrCQE(&out)
		e.Put(&out)
		w.Parse(&b)
		_ = w.Err(1)
		data, _ := Inline(&b)
		sum += len(data) + int(ParseWC(&out).QPN)
	}))
	require.Positive(t, sum)
}
