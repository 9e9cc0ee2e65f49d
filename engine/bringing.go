//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/internal/control"

// A bringing is what a function brings the engine that ran while the engine's thread slept.
// To wake the thread costs the caller more than most requests do, and the thread then spins
// on a core that the caller's program may want. So the thread is woken only if there is a
// reason.
type bringing uint8

const (
	makesWork   bringing = iota // work, perhaps, or another client that wakes the device
	changesWork                 // a change to work that waits; after a nap is soon enough
	noWork                      // nothing that the engine would look for
)

// wakes reports whether the engine's thread is to be woken. naps says that it only naps.
func (b bringing) wakes(naps bool) bool { return b == makesWork || b == changesWork && !naps }

// brings has what each control request brings; requests that are not listed make work.
//
// The first CQ of a client that does not wake the device turns sleeps into naps, so create_cq is
// among those that end a sleep but no nap. A queue pair that is made has no work yet, and its client
// has a CQ already. A request that destroys something can make waiting work fail.
var brings = map[control.Op]bringing{
	control.OpAllocPD:        noWork,
	control.OpDeallocPD:      noWork,
	control.OpCreateRegion:   noWork,
	control.OpPlaceRegion:    noWork,
	control.OpRegMR:          noWork,
	control.OpAllocMW:        noWork,
	control.OpCreateChannel:  noWork,
	control.OpDestroyChannel: noWork,
	control.OpCreateQP:       noWork,
	control.OpQueryQP:        noWork,
	control.OpQuerySRQ:       noWork,
	control.OpOpenEvents:     noWork,
	control.OpCreateSRQ:      changesWork,
	control.OpCreateCQ:       changesWork,
	control.OpCreateMkey:     changesWork,
	control.OpReregMR:        changesWork,
	control.OpDeregMR:        changesWork,
	control.OpDropRegion:     changesWork,
	control.OpDestroyCQ:      changesWork,
	control.OpDestroyQP:      changesWork,
	control.OpDestroySRQ:     changesWork,
}

// bringingOf returns what a request brings. A queue pair in INIT neither sends nor takes messages.
func bringingOf(op control.Op, payload []byte) bringing {
	var m control.QPAttr
	if op == control.OpModifyQP && control.Parse(op, payload, &m) == nil && m.Mask&control.AttrState != 0 && m.State == control.StateINIT {
		return noWork
	}
	return brings[op]
}
