package hostpath

import (
	"encoding/hex"
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// A layout is checked before its numbers are used, because it comes from another program.
func TestLayoutIn(t *testing.T) {
	mem, err := shm.Heap(1 << 16)
	require.NoError(t, err)
	good := func() RawLayout {
		return RawLayout{
			QPN: 0xabc, Receives: 4, Recv: Place{0, 64}, Send: Place{64, 1024}, Record: Place{2048, 8}, Register: Place{4096, 512},
			SendCQ: RawCQLayout{CQN: 1, EntrySize: 64, Ring: Place{8192, 4096}, Record: Place{2056, 8}},
			RecvCQ: RawCQLayout{CQN: 2, EntrySize: 128, Ring: Place{16384, 4096}, Record: Place{2064, 8}},
		}
	}
	l := good()
	r, err := l.In(mem.Bytes())
	require.NoError(t, err)
	p := r.SendParams()
	require.EqualValues(t, 16, p.WQECnt)
	require.EqualValues(t, 4, r.RecvParams().WQECnt)
	require.EqualValues(t, 32, r.RecvCQ.PollParams(0).CQECnt)
	require.Same(t, &mem.Bytes()[64], &r.Send[0])
	require.Equal(t, 1024, cap(r.Send))

	l.Recv, l.Receives = Place{}, 7 // an SRQ
	r, err = l.In(mem.Bytes())
	require.NoError(t, err)
	require.Nil(t, r.Recv)
	require.Zero(t, r.Receives)

	for _, c := range []struct {
		change func(*RawLayout)
		want   string
	}{
		{func(l *RawLayout) { l.QPN = 1 << 24 }, "QP 0x1000000; 24 bits are possible"},
		{func(l *RawLayout) { l.Send = Place{65 << 10, 64} }, "QP 0x000abc: send ring: hostpath: 64 bytes at offset 66560; the memory has 65536"},
		{func(l *RawLayout) { l.Send = Place{^uint64(0), 64} }, "64 bytes at offset 18446744073709551615"},
		{func(l *RawLayout) { l.Send = Place{64, ^uint64(63)} }, "at offset 64; the memory has 65536"},
		{func(l *RawLayout) { l.Send = Place{0, 0} }, "entries of send ring: 0; a power of two up to 32768"},
		{func(l *RawLayout) { l.Send = Place{0, 192} }, "entries of send ring: 3;"},
		{func(l *RawLayout) { l.Send = Place{0, 100} }, "send ring of 100 bytes, with entries of 64"},
		{func(l *RawLayout) { l.Send = Place{8, 64} }, "send ring at offset 8; a multiple of 64 is possible"},
		{func(l *RawLayout) { l.Receives = 0 }, "receive ring of 0 entries in 64 bytes"},
		{func(l *RawLayout) { l.Receives = -1 }, "receive ring of -1 entries in 64 bytes"},
		{func(l *RawLayout) { l.Receives = 5 }, "receive ring of 5 entries in 64 bytes"},
		{func(l *RawLayout) { l.Receives = 3 }, "receive ring of 64 bytes, with entries of 21"},
		{func(l *RawLayout) { l.Record.Size = 4 }, "doorbell record of 4 bytes; 8 are needed"},
		{func(l *RawLayout) { l.Record.Offset = 2050 }, "doorbell record at offset 2050; a multiple of 8 is possible"},
		{func(l *RawLayout) { l.Register.Size = 64 }, "register of 64 bytes; 512 are needed"},
		{func(l *RawLayout) { l.SendCQ.EntrySize = 0 }, "CQ 0x000001: entries of 0 bytes; 64 and 128 are possible"},
		{func(l *RawLayout) { l.RecvCQ.Ring.Size = 128 * 3 }, "entries of CQ: 3;"},
		{func(l *RawLayout) { l.RecvCQ.Ring.Offset = 1 << 16 }, "CQ: hostpath: 4096 bytes at offset 65536"},
		{func(l *RawLayout) { l.RecvCQ.Record.Size = 0 }, "record of a CQ of 0 bytes; 8 are needed"},
	} {
		l := good()
		c.change(&l)
		_, err := l.In(mem.Bytes())
		require.ErrorContains(t, err, c.want)
	}
	m := MemoryLayout{Place{Offset: 65530, Size: 7}, 0, 1}
	_, err = m.In(mem.Bytes())
	require.EqualError(t, err, "hostpath: 7 bytes at offset 65530; the memory has 65536")
}

// AtomicWQE writes control, remote address, operands and pointer, as mlx5 has them.
func TestAtomicWQE(t *testing.T) {
	mem, err := shm.Heap(4096)
	require.NoError(t, err)
	p := WQEParams{LAddr: 0x1000, LKey: 0x200, Length: 8, WRID: 1, Signaled: true, OpType: 0x12, RAddr: 0x8000, RKey: 0x300, QPNum: 0xabc,
		Buf: mem.Bytes()[:256], DBRec: mem.Bytes()[256:264], WQECnt: 4}
	require.NoError(t, AtomicWQE(p, 0x0102030405060708, 9))
	require.Equal(t, "00000112"+"000abc04"+"0000000a00000000"+"00000000000080000000030000000000"+"01020304050607080000000000000009"+"00000008000002000000000000001000",
		hex.EncodeToString(mem.Bytes()[64:128]))
	require.Equal(t, "0000000000000002", hex.EncodeToString(p.DBRec))
	p.OpType = 8
	require.ErrorContains(t, AtomicWQE(p, 0, 0), "atomic of opcode RDMA_WRITE; ATOMIC_FA and ATOMIC_CS are possible")
	p.OpType, p.WQECnt = 0x12, 8
	require.EqualError(t, AtomicWQE(p, 0, 0), "hostpath: ring of 256 bytes; 8 entries need 512")
}
