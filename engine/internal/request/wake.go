//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// wakeCharge is the charge for a client that can wake the device.
var wakeCharge = quota.Charge{quota.Descriptors: 1}

// grant returns the features that the client gets, out of those that it wants.
func (c *Client) grant(want uint64) uint64 {
	if want&control.FeatureWake == 0 || c.Device.Settings.Idle != object.IdleNap ||
		!shm.CanBarrier() || c.makeWakeFD() != nil {
		return 0
	}
	return control.FeatureWake
}

// setWake records whether all posters of the client wake the device. If some do, setWake gives
// the client a descriptor by which they wake the device.
func setWake(c *Client, m *control.Wake, _ object.RequestMemory, r *control.Reply) (control.Message, error) {
	switch {
	case m.Wakes > control.WakeUnpromised:
		return nil, control.Errorf(control.CodeInvalid, "wake: wakes %d; 0 to %d are possible", m.Wakes, control.WakeUnpromised)
	case c.Wake.FD == nil:
		return nil, control.Errorf(control.CodeUnsupported, "wake: the client was not granted this feature")
	}
	if m.Wakes != control.WakeNever {
		yours, err := sleep.DupEventFD(c.Wake.FD)
		if err != nil {
			return nil, control.Errorf(control.CodeMemory, "wake: the client's descriptor: %v", err)
		}
		r.Wake = yours
	}
	c.Wake.Always = m.Wakes == control.WakeAlways
	return &control.Empty{}, nil
}

// makeWakeFD makes the eventfd by which the client wakes the device, and charges for it.
func (c *Client) makeWakeFD() error {
	if err := c.Device.Ledger.Take(c.UID, wakeCharge); err != nil {
		return err
	}
	fd, err := sleep.NewEventFD()
	if err == nil && c.Shard.Sleeper.Load() != nil {
		if err = c.Shard.Sleeper.Load().Add(fd); err != nil {
			_ = fd.Close()
		}
	}
	if err != nil {
		c.Device.Ledger.Refund(c.UID, wakeCharge)
		return err
	}
	c.Wake.FD = fd
	return nil
}

// closeWakeFD closes the client's eventfd.
func (c *Client) closeWakeFD() {
	if c.Wake.FD == nil {
		return
	}
	fd := c.Wake.FD
	c.Wake.FD, c.Wake.Always = nil, false
	if c.Shard.Sleeper.Load() != nil {
		c.Shard.Sleeper.Load().Remove(fd)
	}
	c.After = append(c.After, func() {
		_ = fd.Close()
		c.Device.Ledger.Refund(c.UID, wakeCharge)
	})
}
