package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// askew posts a WQE with a wrong index in the control segment.
func (p *end) askew(c wqe.Ctrl, segments ...any) {
	index := p.write(c, segments...)
	p.sq[int(index)*wqe.BlockSize%len(p.sq)+1] ^= 0x80
	p.ring()
}

// Each work request that the fast path executes, and each that it must leave to the slow path,
// has the same result as on an engine without the fast path: the same memory, completions,
// records, counters, states and explanations.
func TestFastPathAgrees(t *testing.T) {
	for _, row := range slices.Concat(writeRows, readRows, sendRows, atomicRows, otherRows, armedRows, blueFlameRows, seriesRows, inlineRows) {
		t.Run(row.name, func(t *testing.T) {
			pair := newTwins(t, row.prepare)
			pair.both(row.post)
			taken := pair.fastPath() + pair.fast.inRegister
			require.Equal(t, row.taken, taken, "taken by the fast path")
			pair.compare()
		})
	}
}

// The results also agree if all completions go to one completion queue of any small size, and
// if a queue pair is its own peer.
func TestFastPathAgreesOnOneCQ(t *testing.T) {
	for _, self := range []bool{false, true} {
		for log := range uint8(4) {
			t.Run(fmt.Sprintf("itself %t, 2^%d entries", self, log), func(t *testing.T) {
				pair := newTwins(t, func(a, _ *host) (p, q *end) {
					c := a.cq(control.CQ{LogSize: log})
					p = a.qp(control.QP{}, c, c)
					if self {
						return p, p
					}
					return p, a.qp(control.QP{}, c, c)
				})
				pair.both(func(w *twin) {
					for n := range 3 {
						w.q.recv(w.local.data(4096+8*n, 8))
						w.p.write(ctrl(wqe.OpSend), w.local.data(8*n, 8))
					}
					w.p.ring()
				})
				require.NotZero(t, pair.fastPath())
				pair.compare()
			})
		}
	}
}
