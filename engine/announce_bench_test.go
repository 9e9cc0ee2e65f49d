package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// BenchmarkDoorbells measures what the engine needs to find and execute inline writes of 8 bytes, one and
// eight at a time, of queues whose work starts in each way. One thread posts and executes.
func BenchmarkDoorbells(b *testing.B) {
	modes := []string{"record", "register", "guarded"}
	for _, batch := range []int{1, 8} {
		for mode, name := range modes {
			b.Run(fmt.Sprintf("batch=%d/%s", batch, name), func(b *testing.B) {
				s := rung(b, Config{}, uint8(mode))
				data := make([]byte, 8)
				for b.Loop() {
					for range batch {
						s.p.write(silent(wqe.OpRDMAWrite), s.far.raddr(0), data)
					}
					if uint8(mode) != control.DoorbellRegister {
						shm.BE32At(s.p.rec, 4).Publish(uint32(s.p.sent))
					}
					s.p.bell(0x800).Publish(uint64(doorbell.MakeRing(s.p.sent, s.p.num)))
					for done := s.p.q.SQ.Done + uint64(batch); s.p.q.SQ.Done < done; {
						s.step()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/WQE")
			})
		}
	}
}
