package metrics

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/state"
)

// BenchmarkPage makes a page: all but the answers of the engine's sockets.
func BenchmarkPage(b *testing.B) {
	for _, n := range []int{1, mostClients} {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
			e := New("", func(int) string { return "nicless0" }, Build{})
			s := &state.Snapshot{}
			for i := range n {
				s.Clients = append(s.Clients, state.Client{Number: uint32(i), UID: uint32(i % 8), Program: fmt.Sprint("p", i)})
			}
			e.seen.answered = true
			bytes := 0
			for b.Loop() {
				e.seen.engine.addClients(s)
				e.seen.clients.look(s, e.device)
				e.until = e.now().Add(fresh)
				families, err := e.registry.Gather()
				if err != nil {
					b.Fatal(err)
				}
				e.families, e.pages = families, map[format][]byte{}
				p, err := e.page(openMetrics)
				if err != nil {
					b.Fatal(err)
				}
				bytes = len(p)
			}
			b.ReportMetric(float64(bytes), "B/page")
		})
	}
}
