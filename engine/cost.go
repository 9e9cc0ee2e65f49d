//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/internal/shm"

// The budget of a visit is counted in bytes, and everything that takes the time of copying so
// many bytes costs so many. A client chooses how its bytes are cut into pieces and where the
// pieces are, so the bytes alone would bound nothing.

// pieceCost is the least number of bytes that a piece costs of a budget. Judging one entry
// of a list costs the same. Each takes about the time of copying this many bytes.
const pieceCost = 64

// pageCost is the least number of bytes that a piece costs for each side on which it is in another
// page than the piece before it. If the processor knows the page, that is a miss in the caches and
// in the TLB, some 50 ns. If nobody has touched the page yet, the kernel makes it, in 0.5 to 4 us. So a
// turn of a client touches 128 pages of short pieces, and aloneShare times as many if no other client works:
// 4 ms at most (BenchmarkWorstStep). With pieceCost alone it was 16 times as many, and 33 ms.
const pageCost = 512

// dearest is the most that a piece of one byte costs.
const dearest = 2 * pageCost

// A footing holds the pages in which the last piece of a transfer was. Its zero value holds none:
// the first piece of a visit does not pay for its pages.
type footing struct{ dst, src uint64 }

// cost returns what it costs to move n bytes from src to dst.
func (f *footing) cost(dst, src []byte, n int) int {
	d, s, pages := shm.Page(dst), shm.Page(src), 0
	if d != f.dst && f.dst != 0 {
		pages = pageCost
	}
	if s != f.src && f.src != 0 {
		pages += pageCost
	}
	f.dst, f.src = d, s
	return max(n, pieceCost, pages)
}

// takeEffort returns what judging and moving has cost, besides bytes and packets, and
// begins to count anew.
func (sh *mover) takeEffort() (cost int) {
	cost, sh.sched.effort = sh.sched.effort, 0
	return cost
}
