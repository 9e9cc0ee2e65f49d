//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// wakeCharge is the charge for a client that can wake the device.
var wakeCharge = quota.Charge{quota.Descriptors: 1}

// grant returns those of the wanted features that the client gets.
func (c *caller) grant(want uint64) uint64 {
	if want&control.FeatureWake == 0 || c.e.cfg.idle != idleNap || !shm.CanBarrier() || c.makeWakeFD() != nil {
		return 0
	}
	return control.FeatureWake
}

// setWake records whether all posters of the client wake the device. If they do, it gives
// the client a descriptor by which they wake it.
func (c *caller) setWake(m *control.Wake, _ requestMemory, r *control.Reply) (control.Message, error) {
	switch {
	case m.Wakes > 1:
		return nil, control.Errorf(control.CodeInvalid, "wake: wakes %d; 0 and 1 are possible", m.Wakes)
	case c.wake.fd == nil:
		return nil, control.Errorf(control.CodeUnsupported, "wake: the client was not granted this feature")
	}
	if m.Wakes == 1 {
		yours, err := sleep.DupEventFD(c.wake.fd)
		if err != nil {
			return nil, control.Errorf(control.CodeMemory, "wake: the client's descriptor: %v", err)
		}
		r.Wake = yours
	}
	c.wake.always = m.Wakes == 1
	return &control.Empty{}, nil
}

// makeWakeFD makes the eventfd by which the client wakes the device, and charges for it.
func (c *caller) makeWakeFD() error {
	if err := c.e.ledger.Take(c.uid, wakeCharge); err != nil {
		return err
	}
	fd, err := sleep.NewEventFD()
	if err == nil && c.shard.sleeper.Load() != nil {
		if err = c.shard.sleeper.Load().Add(fd); err != nil {
			_ = fd.Close()
		}
	}
	if err != nil {
		c.e.ledger.Refund(c.uid, wakeCharge)
		return err
	}
	c.wake.fd = fd
	return nil
}

// closeWakeFD closes the client's eventfd.
func (c *caller) closeWakeFD() {
	if c.wake.fd == nil {
		return
	}
	fd := c.wake.fd
	c.wake.fd, c.wake.always = nil, false
	if c.shard.sleeper.Load() != nil {
		c.shard.sleeper.Load().Remove(fd)
	}
	c.after = append(c.after, func() {
		_ = fd.Close()
		c.e.ledger.Refund(c.uid, wakeCharge)
	})
}
