//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/internal/control"

// guardPosts makes the device guard the send queue that req describes, if the program's send queues are
// guarded. It is for queues with a send queue.
//
// A queue that starts by its register alone stays as it is: its client orders its stores by itself. So does
// one that another queue enables (SEND_EN), which the device cannot guard. The device overwrites a slot of a
// guarded queue when it takes the WQE. So results do not go into CQEs: libmlx5 looks in the WQE for the
// place to which it copies them.
func (c *call) guardPosts(req *control.QP) {
	if !c.p.guarded || req.Doorbells != control.DoorbellRecord || req.Managed != 0 {
		return
	}
	req.Doorbells = control.DoorbellGuarded
	req.Scatter &^= control.ScatterRequester
}
