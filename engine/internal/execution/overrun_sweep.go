//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/internal/control"
)

// Sweep puts queue pairs whose completion queue has overrun into error, and returns how
// many it has put into error. It checks the next few queue pairs that are still unchecked since
// the last overrun (completion/cq_overrun.go).
func (sh *queues) Sweep() (done int) {
	for range min(completion.SweepPortion, sh.Sched.Unswept) {
		sh.Sched.Unswept--
		if sh.Sched.Swept == 0 || sh.Sched.Swept > len(sh.Running) {
			sh.Sched.Swept = len(sh.Running)
		}
		sh.Sched.Swept--
		q := sh.Running[sh.Sched.Swept]
		overrun := q.SQ.CQ.Dead || q.RQ.CQ.Dead
		if overrun && q.Attr.State != control.StateERR {
			sh.SetError(q)
			done++
		}
	}
	return done
}
