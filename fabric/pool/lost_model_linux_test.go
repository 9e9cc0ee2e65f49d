package pool

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/shm"
)

// Any pages are lost at any time, several at once, and come back blank after three ticks or more. No packet
// is wrong, and when all pages are there all nodes talk again, and no memory has leaked.
func TestPagesLostAtRandom(t *testing.T) {
	for seed := range uint64(8) {
		cfg := Config{Slots: 8, Data: 8192, MTU: 1024, Sums: sumsOf(seed / 2)}
		if seed%2 == 1 {
			cfg.Node = AnyNode
		}
		w, n := lossyWorld(t, 4, cfg)
		rng := rand.New(rand.NewPCG(seed, 7))
		free := n[0].pool.share.pages()
		pages := w.heap.Bytes()
		protect := func(page, how int) {
			require.NoError(t, unix.Mprotect(pages[page*shm.PageSize:][:shm.PageSize], how))
		}
		gone := make(map[int]bool)
		part := int(n[0].pool.header.part() / shm.PageSize)
		for range 150 {
			for page := range gone {
				if rng.IntN(3) == 0 {
					delete(gone, page)
					protect(page, unix.PROT_READ|unix.PROT_WRITE)
					clear(pages[page*shm.PageSize:][:shm.PageSize])
				}
			}
			for range rng.IntN(3) {
				page := rng.IntN(4*part + 1)
				if rng.IntN(3) > 0 {
					page = 1 + rng.IntN(4)*part + rng.IntN(20)
				}
				gone[page] = true
				protect(page, unix.PROT_NONE)
			}
			for range 3 {
				for _, l := range n[rng.IntN(4)].pool.links {
					if l != nil && rng.IntN(3) == 0 {
						l.wanted.Store(true)
					}
				}
			}
			w.pass(time.Duration(3+rng.IntN(40)) * tick)
		}
		for page := range gone {
			protect(page, unix.PROT_READ|unix.PROT_WRITE)
			clear(pages[page*shm.PageSize:][:shm.PageSize])
		}
		w.pass(4 * mostRest)
		for _, a := range n {
			a.number = a.pool.number
		}
		for _, a := range n {
			require.Empty(t, a.pool.lost, "seed %d", seed)
			for _, b := range n {
				if a != b {
					talk(t, w, a, b)
				}
			}
		}
		require.Empty(t, w.problems(), "seed %d", seed)
		w.quiet = true
		idle := func() bool {
			for _, a := range n {
				if a.pool.share.pages() != free || len(a.open()) > 0 || len(a.pool.fences) > 0 {
					return false
				}
			}
			return true
		}
		w.until(3*mostRest, idle, "all memory is free again")
	}
}
