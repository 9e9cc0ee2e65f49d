package packetring

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkCheckSums sends messages of 8 bytes, 4 KiB and 1 MiB, in packets of at most 16 KiB, through a ring
// without and one with check sums, on one thread: the sender copies the bytes into the ring, and the receiver
// out of it. The rings take turns, and the medians of their rounds are reported.
func BenchmarkCheckSums(b *testing.B) {
	const packet, head = 16 << 10, 28
	g := Geometry{Slots: 512, Data: 1 << 20}
	for _, size := range []int{8, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			from, to := make([]byte, size), make([]byte, size)
			var ways [2]func()
			for i := range ways {
				p, c, _ := pair(b, g)
				if i == 1 {
					p.CheckSums(packet)
					c.CheckSums(packet, new(atomic.Uint64))
				}
				var k Packet
				ways[i] = func() {
					for at := 0; at < size; at += packet {
						n := min(packet, size-at)
						_, payload, ok := p.Reserve(head, n)
						copy(payload, from[at:])
						p.Publish(0)
						got, err := c.Next(&k)
						if !ok || !got || err != nil {
							panic("no packet")
						}
						copy(to[at:], k.Payload)
						c.Free()
					}
				}
			}
			messages := max(1, 1<<20/max(size, 256)) // of a round
			var times [2][]float64
			for b.Loop() {
				for i, way := range ways {
					began := time.Now()
					for range messages {
						way()
					}
					times[i] = append(times[i], float64(time.Since(began).Nanoseconds())/float64(messages))
				}
			}
			require.NotEmpty(b, times[0])
			slices.Sort(times[0])
			slices.Sort(times[1])
			n := len(times[0]) / 2
			b.ReportMetric(times[0][n], "ns/off")
			b.ReportMetric(times[1][n], "ns/on")
			b.ReportMetric(0, "ns/op")
		})
	}
}
