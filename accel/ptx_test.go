package accel_test

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/accel/ptx"
	"github.com/stretchr/testify/require"
)

// Offsets in struct poster of accel/cuda/poster.cuh; the queue's words are before them.
const (
	posterLooking  = 392
	posterFrom     = 560
	posterTo       = 568
	posterFarFrom  = 576
	posterFarTo    = 584
	posterKey      = 592
	posterWrong    = 596
	posterSyndrome = 600
	posterSize     = 608
	queueMemory    = 393216 // of nicless_sq_init, for the largest ring
)

// A cudaPoster is accel/cuda/poster.cu, as nvcc has compiled it, and a queue for it.
type cudaPoster struct {
	*lab
	put  *ptx.Kernel
	room *accel.Buffer // struct poster, and after it the memory of its queue and the times
	data *accel.Buffer
	late *ptx.Late
}

func newCUDAPoster(t testing.TB) *cudaPoster {
	t.Helper()
	text, err := os.ReadFile("testdata/poster.ptx")
	require.NoError(t, err)
	return newCUDAPosterOf(t, string(text), nicless.QPConfig{MaxSendWR: 1024})
}

// newCUDAPosterOf is newCUDAPoster with another text, and another queue.
func newCUDAPosterOf(t testing.TB, text string, cfg nicless.QPConfig) *cudaPoster {
	t.Helper()
	l := newLab(t, 4096, accel.Config{})
	program, err := l.dev.LoadPTX(ptx.Module{Name: "poster.ptx", Text: text})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, program.Close()) })
	prepare, err := program.Kernel("prepare")
	require.NoError(t, err)
	p := &cudaPoster{lab: l}
	p.put, err = program.Kernel("put")
	require.NoError(t, err)

	var qps [2]*nicless.QP
	for i := range qps {
		cq, err := l.ctx.CreateCQ(nicless.CQConfig{Collapsed: true})
		require.NoError(t, err)
		cfg.SendCQ = cq
		qps[i], err = l.pd.CreateQP(cfg)
		require.NoError(t, err)
	}
	require.NoError(t, nicless.Pair(qps[0], qps[1], nicless.Connection{}))
	raw, err := qps[0].Raw()
	require.NoError(t, err)
	memory := func(size int) (*nicless.MR, *accel.Buffer) {
		mr, err := l.pd.RegisterMemory(size, nicless.FullAccess)
		require.NoError(t, err)
		return mr, accel.NewBuffer(mr)
	}
	_, p.room = memory(2 << 20)
	mr, data := memory(1 << 20)
	p.data = data
	var at []uint64
	for _, b := range [][]byte{
		raw.Send, raw.Record, raw.Register, raw.SendCQ.Ring, p.room.Bytes(), data.Bytes(),
	} {
		address, err := l.dev.Map(b)
		require.NoError(t, err)
		at = append(at, address)
		t.Cleanup(func() { require.NoError(t, l.dev.Unmap(b)) })
	}
	half := uint64(data.Len() / 2)
	for offset, v := range map[int]uint64{
		posterFrom: data.Address(), posterTo: data.Address() + half,
		posterFarFrom: mr.Addr(), posterFarTo: mr.Addr() + half,
	} {
		binary.LittleEndian.PutUint64(p.room.Bytes()[offset:], v)
	}
	binary.LittleEndian.PutUint32(p.room.Bytes()[posterKey:], mr.LKey())
	one := ptx.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	require.NoError(t, l.stream.LaunchPTX(prepare, one, p.room, at[0], len(raw.Send)/64, at[1], at[2],
		raw.QPN, p.room.Address()+posterSize, at[3]))
	require.NoError(t, l.stream.Sync())
	return p
}

// posts runs the kernel put, and returns the times of all rounds in nanoseconds, sorted. A warp is a party,
// or a block of one thread.
func (p *cudaPoster) posts(t testing.TB, blocks, threads uint32, rounds int) []uint64 {
	t.Helper()
	parties := int(blocks * max(threads/32, 1))
	times := posterSize + queueMemory
	require.LessOrEqual(t, times+8*parties*rounds, p.room.Len())
	l := ptx.Launch{Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}, Late: p.late}
	require.NoError(t, p.stream.LaunchPTX(p.put, l, p.room, rounds, p.room.Address()+uint64(times)))
	require.NoError(t, p.stream.Sync())
	require.Zero(t, binary.LittleEndian.Uint32(p.room.Bytes()[posterWrong:]), "wrong words")
	require.Zero(t, binary.LittleEndian.Uint32(p.room.Bytes()[posterSyndrome:]), "the syndrome of a completion")
	took := slices.Clone(accel.Slice[uint64](p.room)[times/8:][:parties*rounds])
	slices.Sort(took)
	return took
}

// The kernels of accel/cuda/poster.cu, as nvcc has compiled them, post to the device: one lane, a warp, and
// 8192 lanes to one queue. The kernel compares every word that has arrived.
func TestCUDAPoster(t *testing.T) {
	p := newCUDAPoster(t)
	for _, c := range []struct {
		blocks, threads uint32
		rounds          int
	}{{1, 1, 100}, {1, 32, 20}, {3, 96, 10}, {64, 128, 2}} {
		p.posts(t, c.blocks, c.threads, c.rounds)
	}
}

func BenchmarkCUDAPut(b *testing.B) {
	p := newCUDAPoster(b)
	const rounds = 1000
	for b.Loop() {
		took := p.posts(b, 1, 1, rounds)
		b.ReportMetric(float64(took[rounds/2]), "ns/put")
	}
}
