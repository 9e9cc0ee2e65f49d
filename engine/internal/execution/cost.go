//go:build linux && (amd64 || arm64)

package execution

import "github.com/nicless/nicless/engine/internal/copying"

// Dearest is the most that a piece of one byte costs.
const Dearest = 2 * copying.PageCost

// TakeEffort returns what checking and moving has cost, besides bytes and packets, and begins to count anew.
func (sh *mover) TakeEffort() (cost int) {
	cost, sh.Sched.Effort = sh.Sched.Effort, 0
	return cost
}

// Indivisible is how many bytes may be moved in one visit even if less of the budget is left. The result of
// an atomic is 8 bytes long. If it were not moved at once, the atomic would be checked, and so executed, a
// second time. A transfer also advances by this many bytes if checking it has used up the budget.
const Indivisible = 8
