//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/shm"
)

const (
	// PageCost is the least number of bytes that a piece costs for each side on which it is in another
	// page than the piece before it. If the processor knows the page, that is a miss in the caches and
	// in the TLB, some 50 ns. If the page has not been touched yet, the kernel makes it, in 0.5 to 4 us. So a
	// turn of a client touches 128 pages of short pieces, and AloneShare times as many if no other client
	// works: 4 ms at most (BenchmarkWorstStep). With PieceCost alone it was 16 times as many, and 33 ms.
	PageCost = 512

	// Dearest is the most that a piece of one byte costs.
	Dearest = 2 * PageCost
)

// A lastPages has the numbers of the pages in which the last piece of a transfer was. In the zero value they
// are 0, and the first piece of a visit does not pay for its pages.
type lastPages struct{ dst, src uint64 }

// cost returns what moving the next piece, n bytes from src to dst, costs of a budget in bytes.
func (last *lastPages) cost(dst, src []byte, n int) int {
	dstPage, srcPage, newPages := shm.Page(dst), shm.Page(src), 0
	if dstPage != last.dst && last.dst != 0 {
		newPages = PageCost
	}
	if srcPage != last.src && last.src != 0 {
		newPages += PageCost
	}
	last.dst, last.src = dstPage, srcPage
	return max(n, object.PieceCost, newPages)
}

// TakeEffort returns what checking and moving has cost, besides bytes and packets, and
// begins to count anew.
func (sh *mover) TakeEffort() (cost int) {
	cost, sh.Sched.Effort = sh.Sched.Effort, 0
	return cost
}

// Indivisible is how many bytes may be moved in one visit even if less of the budget is
// left. The result of an atomic is 8 bytes long. If it were not moved at once, the atomic
// would be checked, and so executed, a second time. A transfer also advances by this many
// bytes if checking it has used up the budget.
const Indivisible = 8
