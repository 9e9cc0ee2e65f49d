//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// Posters that use libibverbs wake the device when they have posted, if it sleeps: the shim has wrapped
// the functions by which they post. This is no promise of the client (control.Wake), because a program may
// write to its registers itself, as UCX and libraries for GPUs do. So the device still looks for work by
// itself, and the wake-up only comes sooner.

// wake serves NV_WAKE: it answers with the memory that says whether the device sleeps, and the eventfd
// that wakes it.
func (p *process) wake(h wireHeader, _ []byte, _ []nic.File) ([]byte, []*os.File, error) {
	x, err := p.context(h)
	if err != nil {
		return nil, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	status := x.status.File()
	switch {
	case x.ended:
		return nil, nil, refuse(eIO, "the context has ended")
	case x.limits.Features&control.FeatureWake == 0:
		return nil, nil, expected(eOPNOTSUPP, "wake: this device never sleeps until it is woken")
	case status == nil:
		return nil, nil, expected(eBUSY, "wake: this context has queue pairs already")
	}
	give, err := duplicates([]*os.File{status})
	if err != nil {
		return nil, nil, refuse(eNOMEM, "wake: %v", err)
	}
	_, r, err := x.request(control.OpWake, &control.Wake{Wakes: control.WakeUnpromised})
	if err != nil {
		_ = closeFiles(give...)
		return nil, nil, err
	}
	return appendAnswer(nil, h, 0, 0), append(give, r.Wake), nil
}
