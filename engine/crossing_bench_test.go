package engine

import (
	"runtime"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// BenchmarkShards executes the WRITE of BenchmarkStep on as many threads as there are shards.
// Each thread posts for itself. A figure is the time in which each shard executes one WQE.
// Work within a shard runs in parallel with the other shard; crossings of two shards take
// turns.
func BenchmarkShards(b *testing.B) {
	for _, row := range []struct {
		name   string
		shards int
		across bool
		size   int
	}{
		{"one shard, 8", 1, false, 8}, {"two apart, 8", 2, false, 8}, {"two across, 8", 2, true, 8},
		{"one shard, 4096", 1, false, 4096}, {"two apart, 4096", 2, false, 4096}, {"two across, 4096", 2, true, 4096},
	} {
		b.Run(row.name, func(b *testing.B) {
			if runtime.NumCPU() < row.shards {
				b.Skip("not enough cores")
			}
			r := newShards(b, Config{Cores: []int{0, 1}[:row.shards]})
			var hosts []*host
			for range row.shards {
				hosts = append(hosts, r.host("h"))
			}
			ends := make([]*end, row.shards)
			if row.across {
				ends[0], ends[1] = pair(hosts[0], hosts[1])
			} else {
				for i, h := range hosts {
					ends[i], _ = pair(h, h)
				}
			}
			for i, p := range ends {
				to := p.h
				if row.across {
					to = hosts[1-i]
				}
				src, dst := p.h.full(row.size, 1), to.full(row.size, 2)
				for range 16 {
					p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, row.size))
				}
			}
			b.ResetTimer()
			var all sync.WaitGroup
			for _, p := range ends {
				all.Go(func() {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					send, l := shm.BE32At(p.rec, 4), p.h.c.Loop()
					for n := uint32(16); n <= uint32(b.N+15); n += 16 {
						send.Publish(n)
						for p.q.SQ.Done < uint64(n) {
							l.Step()
						}
						shm.BE32At(p.scq.rec, 0).Publish(n & 0xffffff)
					}
				})
			}
			all.Wait()
		})
	}
}
