package pool

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/packetring"
)

// A scribbler has the memory of a pool mapped, and writes random words into all of it: into what its node may
// write, and into what only others may.
type scribbler struct {
	mem []byte
	rng *rand.Rand
	h   header
}

// write writes one word: anywhere, or where words matter.
func (s *scribbler) write() {
	node := uint64(s.rng.IntN(s.h.nodes))
	part := s.h.partAt(int(node))
	in := func(at, n uint64) uint64 { return part + at + s.rng.Uint64N(n) }
	var at uint64
	switch s.rng.IntN(8) {
	case 0:
		at = s.rng.Uint64N(headerSize)
	case 1:
		at = in(lifeAt, 128) // the first line and the bid
	case 2:
		at = in(describeAt, 256)
	case 3:
		at = in(boardAt, 128)
	case 4:
		at = in(namesAt, namesSize+uint64(8*pairSize))
	case 5:
		at = in(s.h.ringsAt(), 16*packetring.SlotSize) // slots of the first rings
	default:
		at = s.rng.Uint64N(s.h.size)
	}
	be.PutUint64(s.mem[at&^7:], s.rng.Uint64()>>s.rng.IntN(64))
}

// A node of four writes random words into the whole pool, while the others talk. Nobody crashes or hangs.
// Packets have check sums, and none is wrong: a ring that was overwritten ends its link, with words. When the
// scribbler has ended, all others talk again within twice the longest rest of a link, and no memory is lost.
func TestHostileNodeWritesEverywhere(t *testing.T) {
	refused := 0
	for seed := range uint64(explore.Rounds(6, 200)) {
		cfg := Config{Sums: SumsOn, Slots: 8, Data: 4096, MTU: 1024}
		w, all := needWorld(t, seed, 4<<20, 4, cfg)
		good := all[:3]
		each := func(f func(a, b *node)) {
			for _, a := range good {
				for _, b := range good {
					if a != b {
						f(a, b)
					}
				}
			}
		}
		talkAll := func() { each(func(a, b *node) { talk(t, w, a, b) }) }
		talkAll()
		free := good[0].pool.share.pages()
		s := &scribbler{mem: w.heap.Bytes(), rng: rand.New(rand.NewPCG(seed, 9)), h: all[0].pool.header}
		for range 500 {
			for range s.rng.IntN(1 << s.rng.IntN(7)) {
				s.write()
			}
			each(func(a, b *node) { a.link(b.number).wanted.Store(true) })
			w.pass(time.Duration(1+s.rng.IntN(3)) * tick)
		}
		w.kill(all[3])
		w.pass(2 * mostRest)
		for _, n := range good {
			require.Empty(t, n.pool.lost, "seed %d", seed)
			for _, p := range n.ports {
				refused += len(p.problems)
				p.problems = slices.DeleteFunc(p.problems, isRefusal)
			}
		}
		require.Empty(t, w.problems(), "seed %d: only refusals", seed)
		talkAll()
		require.Empty(t, w.problems(), "seed %d", seed)
		w.quiet = true
		w.until(3*mostRest, func() bool {
			return !slices.ContainsFunc(good, func(n *node) bool {
				return n.pool.share.pages() < free || len(n.open()) > 0 || len(n.pool.fences) > 0
			})
		}, "all memory is free again")
	}
	require.NotZero(t, refused, "rings with packets were overwritten")
}

// isRefusal reports whether a problem of a port is that it has refused what was in its ring. The others are
// that a packet came which its peer has not sent, or not in this place.
func isRefusal(problem string) bool {
	return !strings.Contains(problem, "payload of packet") && !strings.Contains(problem, "is next")
}
