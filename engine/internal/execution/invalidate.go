//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
)

// invalidate closes the window, or empties the list, that a SEND with invalidate names by its key. It reports
// whether the sender may do so. A window must be of type 2 and belong to the responder p. A list must have
// been made so that peers may empty it. The protection domain of the window or list must be d.
func (sh *requester) invalidate(p *object.QP, d *object.PD, key uint32) (allowed bool) {
	k := sh.Keys.Find(key)
	if k == nil || k.Free || k.Domain() != d {
		return false
	}
	windowOfResponder := k.Window != nil && k.Window.Kind == 2 && k.Window.Serial == p.Serial
	if !k.Inval && !windowOfResponder {
		return false
	}
	sh.InvalidateJobs(k)
	k.Release()
	return true
}
