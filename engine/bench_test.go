package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// BenchmarkStep measures the device's work for WQEs, announced 16 at a time, and for their
// completions. In compressed CQs these are sessions of 16. It includes 16 stores that give the WQEs their
// indices, without which there would be no series.
func BenchmarkStep(b *testing.B) {
	for _, row := range []struct {
		name string
		seg  func(local, far *key) []any
		op   wqe.Opcode
	}{
		{"WRITE 8", func(local, far *key) []any { return []any{far.raddr(0), local.data(0, 8)} }, wqe.OpRDMAWrite},
		{"WRITE 8, two pieces", func(local, far *key) []any { return []any{far.raddr(0), local.data(0, 4), local.data(8, 4)} }, wqe.OpRDMAWrite},
		{"READ 8", func(local, far *key) []any { return []any{far.raddr(0), local.data(0, 8)} }, wqe.OpRDMARead},
		{"SEND 8", func(local, _ *key) []any { return []any{local.data(0, 8)} }, wqe.OpSend},
		{"FETCH_ADD", func(local, far *key) []any { return []any{far.raddr(0), wqe.Atomic{SwapAdd: 1}, local.data(0, 8)} }, wqe.OpAtomicFA},
		{"CMP_SWAP", func(local, far *key) []any { return []any{far.raddr(0), wqe.Atomic{}, local.data(0, 8)} }, wqe.OpAtomicCS},
	} {
		for _, compressed := range []bool{false, true} {
			name := row.name
			if compressed {
				name += ", compressed"
			}
			b.Run(name, func(b *testing.B) {
				cqsCompressed = compressed
				defer func() { cqsCompressed = false }()
				r, p, q := duo(b, Config{})
				local, far := p.h.full(64, 1), q.h.full(64, 2)
				for range 16 {
					q.recv(far.data(0, 64))
					p.write(ctrl(row.op), row.seg(local, far)...)
				}
				send, receive := shm.BE32At(p.rec, 4), shm.BE32At(q.rec, 0)
				n := uint32(0)
				blocks := uint32(p.sent)
				var first [16]uint64
				for k := range first {
					first[k] = shm.BlockAt(p.sq, uint64(k)*64).Word(0) &^ (0xffff << 40)
				}
				b.ReportAllocs()
				for i := 0; i < b.N; i += 16 {
					for k, w := range first {
						shm.BlockAt(p.sq, uint64(k)*64).PublishFirst(w | uint64(uint16(n)+uint16(k))<<40)
					}
					n += 16
					receive.Publish(n)
					send.Publish(uint32(i/16+1) * blocks)
					r.e.Step()
					shm.BE32At(p.scq.rec, 0).Publish(n & 0xffffff)
					shm.BE32At(q.rcq.rec, 0).Publish(n & 0xffffff)
				}
				if uint32(p.q.SQ.Done) != uint32(uint32((b.N+15)/16)*blocks) {
					b.Fatal("not all was executed")
				}
			})
		}
	}
}

// BenchmarkManyQueues measures what a large number of queues costs: the round trip of one
// active queue among cold queues, and the rate of all queues together when all are active.
func BenchmarkManyQueues(b *testing.B) {
	for _, n := range []int{1, 1_000, 10_000} {
		b.Run(fmt.Sprintf("one active of %d", n), func(b *testing.B) {
			if runtime.NumCPU() < 2 {
				b.Skip("who posts and who executes need a core each")
			}
			r := newRig(b, Config{Idle: IdleSpin, CPUs: []int{1}})
			p := r.manyQPs(n, min(n, 100))[0]
			src, dst := p.h.full(64, 1), p.h.full(64, 2)
			r.cold()
			ctx, stop := context.WithCancel(context.Background())
			gone := make(chan error)
			go func() { gone <- r.d.Run(ctx, nil) }()
			trip := func() {
				p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
				for _, _, ok := p.scq.next(); !ok; _, _, ok = p.scq.next() {
				}
			}
			poster, err := New(Config{CPUs: []int{0}})
			require.NoError(b, err)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			unpin, err := poster.runner.Loops[0].Pin()
			require.NoError(b, err)
			defer unpin()
			for range 10_000 {
				trip()
			}
			const stint = 50 // round trips; the median leaves out stints in which a thread was interrupted
			var stints []float64
			b.ResetTimer()
			for left := b.N; left > 0; left -= stint {
				begin := time.Now()
				for range stint {
					trip()
				}
				stints = append(stints, float64(time.Since(begin))/stint)
			}
			b.StopTimer()
			slices.Sort(stints)
			b.ReportMetric(stints[len(stints)/2], "ns/median")
			stop()
			<-gone
		})
	}
	for _, batch := range []int{1, 16} {
		for _, n := range []int{1, 1_000} {
			b.Run(fmt.Sprintf("all of %d active, %d each", n, batch), func(b *testing.B) {
				r := newRig(b, Config{})
				ends := r.manyQPs(n, min(n, 10))
				type keys struct{ src, dst *key }
				mem := map[*host]keys{}
				for _, p := range ends {
					if _, ok := mem[p.h]; !ok {
						mem[p.h] = keys{p.h.full(64, 1), p.h.full(64, 2)}
					}
					for range 16 {
						p.write(ctrl(wqe.OpRDMAWrite), mem[p.h].dst.raddr(0), mem[p.h].src.data(0, 8))
					}
				}
				b.ResetTimer()
				posted := uint32(0)
				for left := b.N; left > 0; left -= n * batch {
					posted += uint32(batch)
					for _, p := range ends {
						p.record(4, posted)
					}
					for done := 0; done < n*batch; {
						done += r.e.Step()
					}
				}
			})
		}
	}
}
