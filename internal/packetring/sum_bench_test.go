package packetring

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkCheckSums sends messages of 8 bytes, 4 KiB and 1 MiB, in packets of at most 16 KiB, through a ring
// without and one with check sums, on one thread: the sender copies the bytes into the ring, and the receiver
// out of it. -count lets both take turns.
func BenchmarkCheckSums(b *testing.B) {
	const packet, head = 16 << 10, 28
	g := Geometry{Slots: 512, Data: 1 << 20}
	for _, size := range []int{8, 4 << 10, 1 << 20} {
		from, to := make([]byte, size), make([]byte, size)
		for _, sums := range []string{"off", "on"} {
			b.Run(fmt.Sprintf("bytes=%d/sums=%s", size, sums), func(b *testing.B) {
				p, c, _ := pair(b, g)
				if sums == "on" {
					p.CheckSums(packet)
					c.CheckSums(packet, new(atomic.Uint64))
				}
				var k Packet
				for b.Loop() {
					for at := 0; at < size; at += packet {
						_, payload, ok := p.Reserve(head, min(packet, size-at))
						copy(payload, from[at:])
						p.Publish(0)
						got, err := c.Next(&k)
						if !ok || !got || err != nil {
							b.Fatal("no packet")
						}
						copy(to[at:], k.Payload)
						c.Free()
					}
				}
			})
		}
	}
}
