package pool

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/board"
)

// A scribbler writes garbage over what nodes say of themselves, word by word, three times, while the nodes
// look, write and repair at any moment between two words. When it has ended, all of them know what the others
// announce.
func TestScribbler(t *testing.T) {
	for seed := range uint64(24) {
		w := newIncoherentWorld(t, seed)
		a, b := couple(t, w)
		var words []uint64
		for range 3 {
			for _, n := range []*node{a, b} {
				for at := uint64(0); at < 128; at += 8 {
					words = append(words, n.pool.part+boardAt+at, n.pool.part+lifeAt+at, n.pool.part+describeAt+at)
				}
			}
		}
		scribble := func(most int) {
			for range min(w.rng.IntN(most), len(words)) {
				var word [8]byte
				binary.BigEndian.PutUint64(word[:], w.rng.Uint64())
				w.mem.Write(int(words[0]), word[:])
				words = words[1:]
			}
		}
		lists := map[*node][]board.Entry{a: {{Client: 1, Value: "of a"}}, b: {{Client: 2, Value: "of b"}}}
		for n, list := range lists {
			n.announce(t, list...)
		}
		w.stored = func(*node) {
			if w.rng.IntN(4) == 0 {
				scribble(8)
			}
		}
		w.interleave = true
		for len(words) > 0 {
			scribble(12)
			w.pass(tick)
			if w.rng.IntN(20) == 0 {
				n := []*node{a, b}[w.rng.IntN(2)]
				lists[n] = []board.Entry{{Client: uint32(1 + w.rng.IntN(3)), Value: "newer"}}
				n.announce(t, lists[n]...)
			}
		}
		w.stored, w.interleave = nil, false
		w.pass(3 * time.Second)
		for n, of := range map[*node]*node{a: b, b: a} {
			require.Equal(t, lists[of], n.board[of.guid], "seed %d, node %d", seed, n.number)
			require.True(t, n.up(of.number))
		}
	}
}
