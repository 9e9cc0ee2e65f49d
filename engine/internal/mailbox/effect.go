//go:build linux && (amd64 || arm64)

package mailbox

import (
	"github.com/nicless/nicless/internal/control"
)

// An Effect says what a function that ran while the engine's thread slept means for that thread. Waking the
// thread costs the caller more than most requests do, and the thread then spins on a core that the caller's
// program may want. So the thread is woken only if the function gave it a reason.
type Effect uint8

const (
	MakesWork   Effect = iota // the function may have made work, or a client that wakes the device
	ChangesWork               // the function changed work that waits, and the end of a nap is soon enough
	NoWork                    // the function did nothing that the thread looks for
)

// wakes reports whether the engine's thread is to be woken. naps says that the thread sleeps only for the
// length of a nap.
func (e Effect) wakes(naps bool) bool { return e == MakesWork || e == ChangesWork && !naps }

// effects has the effect of each control request. Requests that are not listed make work.
//
// The first CQ of a client that does not wake the device turns sleeps into naps, so create_cq changes work:
// it ends a sleep, but no nap. A new queue pair has no work yet, and its client has a CQ already. A request
// that destroys something can make waiting work fail.
var effects = map[control.Op]Effect{
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
	control.OpQueryPort:      NoWork,
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

// EffectOf returns the effect of a control request. A transition to INIT makes no work, because a queue pair
// in INIT neither sends nor takes messages.
func EffectOf(op control.Op, payload []byte) Effect {
	var m control.QPAttr
	if op == control.OpModifyQP && control.Parse(op, payload, &m) == nil && m.Mask&control.AttrState != 0 &&
		m.State == control.StateINIT {
		return NoWork
	}
	return effects[op]
}
