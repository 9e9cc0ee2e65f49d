package accel_test

import (
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/stretchr/testify/require"
)

// Kernels post without allocating, however they wait.
func TestNoAllocation(t *testing.T) {
	l := newLab(t, 4096, accel.Config{})
	perRun := -1.0
	require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
		data := make([]byte, 8)
		perRun = testing.AllocsPerRun(200, func() {
			th.Put(l.q, l.far.Ref(0), l.mem.Ref(0), 8)
			th.PutInline(l.q, l.far.Ref(8), data)
			th.PutSignal(l.q, l.far.Ref(16), l.mem.Ref(0), 8, l.far.Ref(24), 1)
			th.Get(l.q, l.mem.Ref(8), l.far.Ref(0), 8)
			th.CompareSwap(l.q, l.far.Ref(32), 0, 0, l.mem.Ref(16))
			th.PutWarp(l.q, l.far.Ref(0), l.mem.Ref(0), 8)
			_ = th.Quiet(l.q)
		})
	}))
	require.Zero(t, perRun)
}

// BenchmarkPut32 posts 32 writes of 8 bytes, by a warp at once and by the host as a list.
// Compare the two only within one run.
func BenchmarkPut32(b *testing.B) {
	const puts = 32
	perWQE := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*puts), "ns/wqe")
	}
	b.Run("warp", func(b *testing.B) {
		l := newLab(b, 4096, accel.Config{}, func(c *nicless.QPConfig) { c.MaxSendWR = 256 })
		n := b.N
		b.ResetTimer()
		require.NoError(b, l.run(b, 1, puts, func(th *accel.Thread) {
			dst, src := l.far.Ref(8*th.Index()), l.mem.Ref(8*th.Index())
			for range n {
				th.PutWarp(l.q, dst, src, 8)
			}
			if err := th.Quiet(l.q); err != nil {
				panic(err)
			}
		}))
		perWQE(b)
	})
	b.Run("host", func(b *testing.B) {
		l := newLab(b, 4096, accel.Config{})
		cq, err := l.ctx.CreateCQ(nicless.CQConfig{Entries: 256, PollOnly: true})
		require.NoError(b, err)
		qp, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: cq, MaxSendWR: 256})
		require.NoError(b, err)
		peer, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		require.NoError(b, err)
		require.NoError(b, nicless.Pair(qp, peer, nicless.Connection{}))
		list := make([]nicless.SendWR, puts)
		for i := range list {
			dst, src := l.far.Ref(8*i), l.mem.Ref(8*i)
			list[i] = nicless.SendWR{
				Op: nicless.Write, SGE: []nicless.SGE{{Addr: src.Addr, Length: 8, LKey: src.Key}},
				RemoteAddr: dst.Addr, RKey: dst.Key,
			}
		}
		list[puts-1].Flags = nicless.Signaled
		var c [16]nicless.Completion
		b.ResetTimer()
		for posted, done := 0, 0; done < b.N; {
			if posted < b.N {
				n, err := qp.PostSendList(list)
				switch {
				case err == nil:
					posted++
				case !errors.Is(err, nicless.ErrFull) || n > 0:
					b.Fatal(n, err)
				}
			}
			n, err := cq.Poll(c[:])
			require.NoError(b, err)
			done += n
		}
		perWQE(b)
	})
}

// BenchmarkPosters lets host threads post to one queue at once, each ringing for every write.
// The rate does not collapse, although the threads share the cores that the engine leaves.
func BenchmarkPosters(b *testing.B) {
	for _, posters := range []int{1, 8} {
		b.Run(strconv.Itoa(posters), func(b *testing.B) {
			l := newLab(b, 4096, accel.Config{}, func(c *nicless.QPConfig) { c.MaxSendWR = 256 })
			var all sync.WaitGroup
			b.ResetTimer()
			for range posters {
				all.Go(func() {
					var c [16]nicless.Completion
					src, dst := l.mem.Ref(0), l.far.Ref(0)
					wr := nicless.SendWR{
						Op: nicless.Write, Flags: nicless.Signaled, RemoteAddr: dst.Addr, RKey: dst.Key,
						SGE: []nicless.SGE{{Addr: src.Addr, Length: 8, LKey: src.Key}},
					}
					for n := 0; n < b.N/posters; {
						err := l.qp.PostSend(&wr)
						switch {
						case err == nil:
							n++
						case errors.Is(err, nicless.ErrFull):
							if k, _ := l.cq.TryPoll(c[:]); k == 0 {
								runtime.Gosched()
							}
						default:
							panic(err)
						}
					}
				})
			}
			all.Wait()
		})
	}
}
