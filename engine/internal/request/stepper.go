//go:build linux && (amd64 || arm64)

package request

import (
	"runtime/debug"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

var _ nic.Stepper = Device{}

// Hold and StepAll implement nic.Stepper. They hold the lock of the mailbox, so that no request is served
// during a step.
func (d Device) Hold(at uint64) {
	d.Mail.Mu.Lock()
	defer d.Mail.Mu.Unlock()
	d.Hooks.SendsNow = true // a goroutine that sends events later would not be known to the caller
	sh := d.Loops[0]
	sh.Hooks.HeldClock, sh.Taps.Held = at, at
}

func (d Device) StepAll(sleep uint64) (done int, next uint64) {
	d.Mail.Mu.Lock()
	defer d.Mail.Mu.Unlock()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	sh := d.Loops[0]
	for c := range sh.Clients {
		c.Page.Asleep.Publish(sleep)
	}
	// The barrier belongs to docs/ORDERING.md, number 16. Without it, work that is posted now could be
	// seen neither by this call nor by its poster as work of a device that sleeps.
	_ = shm.Barrier()
	sh.Published = 0 // so that Publish publishes
	defer sh.Publish()
	sh.BeginPass()
	for range mostLooks {
		f := sh.Look(loop.LookPolls, true)
		done += f.Done
		switch {
		case f.Done > 0:
			done += sh.Step() // which does what a look leaves to the next step
			sh.BeginPass()
		case f.Ended:
			return done, f.Next
		}
	}
	return done, 0
}

// mostLooks is how many looks one StepAll makes. Queues that enable each other without end always have work.
// A look executes at least one WQE or continues a pass by LookPolls places, of which a device can have some
// millions, so a million looks are enough for every load that ends.
const mostLooks = 1 << 20
