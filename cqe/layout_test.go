package cqe

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A body and a tail together are the entry that CQE.Put writes.
func TestPutBodyAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := CQE{
			FlagsRQPN: rapid.Uint32().Draw(t, "flags"), SRQNUIdx: rapid.Uint32().Draw(t, "uidx"),
			Imm: rapid.Uint32().Draw(t, "imm"), ByteCount: rapid.Uint32().Draw(t, "byte_cnt"),
			Timestamp: rapid.Uint64().Draw(t, "timestamp"), WQEOpcode: rapid.Byte().Draw(t, "opcode"),
			QPN: rapid.Uint32Range(0, Mask24).Draw(t, "qpn"), Counter: rapid.Uint16().Draw(t, "counter"),
			Signature: rapid.Byte().Draw(t, "signature"), OpOwn: OpOwn(rapid.Byte().Draw(t, "op_own")),
		}
		var want, got [Size]byte
		c.Put(&want)
		tail := MakeTail(c.QPN, c.WQEOpcode, c.Counter, c.Signature, c.OpOwn)
		PutBody(&got, c.FlagsRQPN, c.SRQNUIdx, c.Imm, c.ByteCount, c.Timestamp)
		putTail(&got, tail)
		require.Equal(t, want, got)
		require.Equal(t, c.WQEOpcode, tail.WQEOpcode())
		require.Equal(t, c.QPN, tail.QPN())
		require.Equal(t, c.Counter, tail.Counter())
		require.Equal(t, c.OpOwn, tail.OpOwn())
	})
}

// Every offset is that of the byte from which the parser reads the field.
func TestOffsets(t *testing.T) {
	for _, f := range []struct {
		name string
		at   int
		read func(c *CQE, e *ErrCQE) uint64 // the field's first byte
	}{
		{"ml_path", OffMLPath, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.MLPath) }},
		{"slid", OffSLID, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.SLID >> 8) }},
		{"flags_rqpn", OffFlagsRQPN, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.FlagsRQPN >> 24) }},
		{"srqn_uidx", OffUIdx, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.SRQNUIdx >> 24) }},
		{"imm_inval_pkey", OffImm, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.Imm >> 24) }},
		{"byte_cnt", OffByteCount, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.ByteCount >> 24) }},
		{"timestamp", OffTimestamp, func(c *CQE, _ *ErrCQE) uint64 { return c.Timestamp >> 56 }},
		{"vendor", OffVendor, func(_ *CQE, e *ErrCQE) uint64 { return uint64(e.Vendor) }},
		{"syndrome", OffSyndrome, func(_ *CQE, e *ErrCQE) uint64 { return uint64(e.Syndrome) }},
		{"opcode of the WQE", OffQPN, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.WQEOpcode) }},
		{"tail", OffTail, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.WQEOpcode) }},
		{"wqe_counter", OffCounter, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.Counter >> 8) }},
		{"signature", OffSignature, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.Signature) }},
		{"op_own", OffOpOwn, func(c *CQE, _ *ErrCQE) uint64 { return uint64(c.OpOwn) }},
	} {
		var b [Size]byte
		b[f.at] = 0xa5
		c, e := ParseCQE(&b), ParseErrCQE(&b)
		require.EqualValues(t, 0xa5, f.read(&c, &e), f.name)
	}
	var b [Size]byte
	PutErr(&b, 1, 2, 3, 4, RemoteAccess, 0x88, MakeOpOwn(ReqErr, FormatPlain, false, 0))
	require.EqualValues(t, RemoteAccess, b[OffSyndrome])
	require.EqualValues(t, 0x88, b[OffVendor])
}

func TestPlain(t *testing.T) {
	for i := range 256 {
		o := OpOwn(i)
		require.Equal(t, o.Opcode() == Req && o.Format() == FormatPlain, o.PlainReq(), "0x%02x", i)
		require.Equal(t, o.Opcode() == RespSend && o.Format() == FormatPlain, o.PlainRespSend(), "0x%02x", i)
	}
}

func TestEntryOffset(t *testing.T) {
	require.EqualValues(t, 3*64, EntryOffset(3, 6))
	require.EqualValues(t, 3*128+64, EntryOffset(3, 7))
}
