package congestion

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Packets that are lost whatever the sender carries cost no more than themselves, over pipes of all sizes.
func TestOneSender(t *testing.T) {
	for _, pipe := range []uint64{50, 500, 1400} {
		for _, queue := range []uint64{pipe / 4, pipe} {
			for _, loss := range []float64{0, 0.01, 0.03} {
				t.Run(fmt.Sprintf("pipe %d, queue %d, loss %v", pipe, queue, loss), func(t *testing.T) {
					for seed := range uint64(2) {
						l := newLine(queue, pipe, loss, seed)
						s := l.add(0, new(Trip))
						l.run(20 * pipe)
						before, dropped, sent := s.got, l.dropped, s.sent
						l.run(70 * pipe)
						got := float64(s.got-before) / float64(50*pipe)
						drops := float64(l.dropped-dropped) / float64(s.sent-sent)
						t.Logf("seed %d: %.2f of the line, %.3f dropped, window %d", seed, got, drops, s.size)
						require.Greater(t, got, 0.8*(1-loss))
						require.Less(t, drops, 0.15)
					}
				})
			}
		}
	}
}

// Senders share a line, the second of which begins when the first has filled it. Each measures its own time.
func TestTwoSenders(t *testing.T) {
	for _, pipe := range []uint64{200, 700, 1400} {
		for _, queue := range []uint64{pipe / 4, pipe} {
			for _, loss := range []float64{0, 0.01} {
				t.Run(fmt.Sprintf("pipe %d, queue %d, loss %v", pipe, queue, loss), func(t *testing.T) {
					for seed := range uint64(2) {
						l := newLine(queue, pipe, loss, seed)
						a, b := l.add(0, new(Trip)), l.add(10*pipe, new(Trip))
						l.run(80 * pipe)
						before, dropped, sent := [2]int{a.got, b.got}, l.dropped, a.sent+b.sent
						l.run(130 * pipe)
						x, y := a.got-before[0], b.got-before[1]
						drops := float64(l.dropped-dropped) / float64(a.sent+b.sent-sent)
						t.Logf("seed %d: %.2f and %.2f of the line, %.3f dropped, windows %d and %d", seed,
							float64(x)/float64(50*pipe), float64(y)/float64(50*pipe), drops, a.size, b.size)
						require.Greater(t, float64(x+y), 0.7*(1-loss)*float64(50*pipe))
						require.Less(t, max(x, y), 2*min(x, y))
						require.Less(t, drops, 0.15)
					}
				})
			}
		}
	}
}
