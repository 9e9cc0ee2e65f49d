package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// BenchmarkCopy measures how long WRITEs of several sizes take the device, from the doorbell
// to the completion. WRITEs of 64 KiB and more are executed in slices.
func BenchmarkCopy(b *testing.B) {
	for _, row := range []struct {
		name string
		size int
	}{{"64", 64}, {"4K", 4 << 10}, {"64K", 64 << 10}, {"1M", 1 << 20}} {
		b.Run(row.name, func(b *testing.B) {
			r, p, q := duo(b, Config{})
			local, far := p.h.full(row.size, 1), q.h.full(row.size, 2)
			for range 16 {
				p.write(ctrl(wqe.OpRDMAWrite), far.raddr(0), local.data(0, row.size))
			}
			blocks := uint32(p.sent) / 16
			send, polled := shm.BE32At(p.rec, 4), shm.BE32At(p.scq.rec, 0)
			b.SetBytes(int64(row.size))
			b.ResetTimer()
			for i := uint32(1); i <= uint32(b.N); i++ {
				send.Publish(i * blocks)
				for p.q.SQ.Done != uint64(i*blocks) || p.q.Job != nil {
					r.e.Step()
				}
				polled.Publish(i & 0xffffff)
			}
		})
	}
}
