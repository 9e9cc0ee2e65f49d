package pool

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All of a pool changes at once under nodes that run, as when the device that has it is reset, or returns
// what it had before. The nodes come back by themselves and exchange right packets.
func TestPoolIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(w *world, m, before []byte){
		"by zeros":                  func(_ *world, m, _ []byte) { clear(m) },
		"by ones":                   func(_ *world, m, _ []byte) { copy(m, bytes.Repeat([]byte{0xff}, len(m))) },
		"by garbage":                func(w *world, m, _ []byte) { garbage(w.rng, m) },
		"by what it was before":     func(_ *world, m, before []byte) { copy(m, before) },
		"by what it was, in halves": func(_ *world, m, before []byte) { copy(m[len(m)/2:], before[len(m)/2:]) },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				w := newWorld(t, seed)
				a, b := couple(t, w)
				header := [headerSize]byte(w.heap.Bytes())
				before := bytes.Clone(w.heap.Bytes())
				works(t, w, a, b)
				w.pass(time.Second)
				replace(w, w.heap.Bytes(), before)
				w.pass(5 * time.Second)
				require.Equal(t, header, [headerSize]byte(w.heap.Bytes()), "so that others can join")
				works(t, w, a, b)
			}
		})
	}
}
