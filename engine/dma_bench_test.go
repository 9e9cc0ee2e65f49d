package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// BenchmarkLongBesideShort executes WRITEs of 1 MiB while another queue always has 8-byte
// WRITEs. It measures how fast the long WRITEs are, how many short WRITEs are executed in the
// same time, and how long the longest step takes, because a short WRITE may wait for a step.
func BenchmarkLongBesideShort(b *testing.B) {
	const size, batch = 1 << 20, 16
	for _, cores := range [][]int{nil, {0}} {
		b.Run(fmt.Sprintf("%d workers", len(cores)), func(b *testing.B) {
			if runtime.NumCPU() < 2 {
				b.Skip("a worker needs a core that is not the engine's")
			}
			r, p, q := duo(b, Config{CPUs: []int{1}, DMACores: cores})
			by, _ := pair(p.h, q.h)
			src, dst := p.h.full(size, 1), q.h.full(size, 2)
			for range batch { // all that the rings hold
				p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
				by.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			unpin, err := r.e.Pin()
			require.NoError(b, err)
			defer unpin()
			end, err := r.e.UseWorkers()
			require.NoError(b, err)
			defer end()
			long, short := shm.BE32At(p.rec, 4), shm.BE32At(by.rec, 4)
			posted, steps := uint32(0), []time.Duration{}
			b.SetBytes(size)
			for i := range b.N {
				long.Publish(uint32(i + 1))
				for p.q.SQ.Done != uint64(i+1) {
					if uint32(by.q.SQ.Done) == posted {
						posted += batch
						short.Publish(posted)
						shm.BE32At(by.scq.rec, 0).Publish(posted & 0xffffff)
					}
					began := time.Now()
					r.e.Step()
					steps = append(steps, time.Since(began))
				}
				shm.BE32At(p.scq.rec, 0).Publish(uint32(i+1) & 0xffffff)
			}
			b.StopTimer()
			require.Equal(b, control.StateRTS, p.state())
			b.ReportMetric(float64(posted)/float64(b.N), "short/op")
			b.ReportMetric(float64(p99(steps)), "ns/p99-step")
		})
	}
}

func p99(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)*99/100]
}
