//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// checkFaulty is Check for a queue pair that rules of faults have to do with. Datagrams that leave the device
// are sent while they are checked, so those that rules for packets act on take a detour there.
func (sh *Executor) checkFaulty(q *object.QP, n uint16) (v object.Verdict) {
	if q.Transport != control.QPTypeUD || !q.Faults.OnPackets() {
		return sh.Check(q, n)
	}
	sh.Links.DetourDatagram(q, func() { v = sh.Check(q, n) })
	return v
}
