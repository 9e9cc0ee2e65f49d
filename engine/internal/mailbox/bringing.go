//go:build linux && (amd64 || arm64)

package mailbox

import (
	"github.com/nicless/nicless/internal/control"
)

// A Bringing is what a function brings the engine that ran while the engine's thread slept.
// To wake the thread costs the caller more than most requests do, and the thread then spins
// on a core that the caller's program may want. So the thread is woken only if there is a
// reason.
type Bringing uint8

const (
	MakesWork   Bringing = iota // work, perhaps, or another client that wakes the device
	ChangesWork                 // a change to work that waits; after a nap is soon enough
	NoWork                      // nothing that the engine would look for
)

// wakes reports whether the engine's thread is to be woken. naps says that it only naps.
func (b Bringing) wakes(naps bool) bool { return b == MakesWork || b == ChangesWork && !naps }

// brings has what each control request brings; requests that are not listed make work.
//
// The first CQ of a client that does not wake the device turns sleeps into naps, so create_cq is
// among those that end a sleep but no nap. A queue pair that is made has no work yet, and its client
// has a CQ already. A request that destroys something can make waiting work fail.
var brings = map[control.Op]Bringing{
	control.OpAllocPD:        NoWork,
	control.OpDeallocPD:      NoWork,
	control.OpCreateRegion:   NoWork,
	control.OpPlaceRegion:    NoWork,
	control.OpRegMR:          NoWork,
	control.OpAllocMW:        NoWork,
	control.OpCreateChannel:  NoWork,
	control.OpDestroyChannel: NoWork,
	control.OpCreateQP:       NoWork,
	control.OpQueryQP:        NoWork,
	control.OpQuerySRQ:       NoWork,
	control.OpOpenEvents:     NoWork,
	control.OpCreateSRQ:      ChangesWork,
	control.OpCreateCQ:       ChangesWork,
	control.OpCreateMkey:     ChangesWork,
	control.OpReregMR:        ChangesWork,
	control.OpDeregMR:        ChangesWork,
	control.OpDropRegion:     ChangesWork,
	control.OpDestroyCQ:      ChangesWork,
	control.OpDestroyQP:      ChangesWork,
	control.OpDestroySRQ:     ChangesWork,
}

// BringingOf returns what a request brings. A queue pair in INIT neither sends nor takes messages.
func BringingOf(op control.Op, payload []byte) Bringing {
	var m control.QPAttr
	if op == control.OpModifyQP && control.Parse(op, payload, &m) == nil && m.Mask&control.AttrState != 0 &&
		m.State == control.StateINIT {
		return NoWork
	}
	return brings[op]
}
