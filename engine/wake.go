package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// wakeBill is what it costs that a client can wake the device.
var wakeBill = bill{descriptors: 1}

// grant returns which of the features that the client wants it gets.
func (c *Client) grant(want uint64) uint64 {
	if want&control.FeatureWake == 0 || c.e.cfg.Idle != IdleNap || !shm.CanBarrier() || c.makeWakeFD() != nil {
		return 0
	}
	return control.FeatureWake
}

// setWake notes whether the client's posters wake the device, and gives it what
// they do it by.
func (c *Client) setWake(m *control.Wake, _ Memory, r *control.Reply) (control.Message, error) {
	switch {
	case m.Wakes > 1:
		return nil, control.Errorf(control.CodeInvalid, "wake: wakes %d; 0 and 1 are possible", m.Wakes)
	case c.wake.fd == nil:
		return nil, control.Errorf(control.CodeUnsupported, "wake: the client was not granted this feature")
	}
	if m.Wakes == 1 {
		yours, err := dupEventFD(c.wake.fd)
		if err != nil {
			return nil, control.Errorf(control.CodeMemory, "wake: the client's descriptor: %v", err)
		}
		r.Wake = yours
	}
	c.wake.always = m.Wakes == 1
	return &control.Empty{}, nil
}

// makeWakeFD makes the descriptor that the client wakes the device by.
func (c *Client) makeWakeFD() error {
	if err := c.e.shares.take(c.uid, wakeBill); err != nil {
		return err
	}
	bell, err := newEventFD()
	if err == nil && c.shard.sleeper != nil {
		if err = c.shard.sleeper.add(bell); err != nil {
			_ = bell.Close()
		}
	}
	if err != nil {
		c.e.shares.give(c.uid, wakeBill)
		return err
	}
	c.wake.fd = bell
	return nil
}

// closeWakeFD takes the descriptor back.
func (c *Client) closeWakeFD() {
	if c.wake.fd == nil {
		return
	}
	bell := c.wake.fd
	c.wake.fd, c.wake.always = nil, false
	if c.shard.sleeper != nil {
		c.shard.sleeper.remove(bell)
	}
	c.after = append(c.after, func() {
		_ = bell.Close()
		c.e.shares.give(c.uid, wakeBill)
	})
}
