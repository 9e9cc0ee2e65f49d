package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// wakeBill is what it costs that a client can wake the device.
var wakeBill = bill{descriptors: 1}

// grant returns which of the features that the client wants it gets.
func (c *Client) grant(want uint64) uint64 {
	if want&control.FeatureWake == 0 || c.e.cfg.Idle != IdleNap || !shm.CanBarrier() || c.makeBell() != nil {
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
	case c.bell == nil:
		return nil, control.Errorf(control.CodeUnsupported, "wake: the client was not granted this feature")
	}
	if m.Wakes == 1 {
		yours, err := sameBell(c.bell)
		if err != nil {
			return nil, control.Errorf(control.CodeMemory, "wake: the client's descriptor: %v", err)
		}
		r.Wake = yours
	}
	c.wakes = m.Wakes == 1
	return &control.Empty{}, nil
}

// makeBell makes the descriptor that the client wakes the device by.
func (c *Client) makeBell() error {
	if err := c.e.shares.take(c.uid, wakeBill); err != nil {
		return err
	}
	bell, err := newBell()
	if err == nil && c.lane.bed != nil {
		if err = c.lane.bed.add(bell); err != nil {
			_ = bell.Close()
		}
	}
	if err != nil {
		c.e.shares.give(c.uid, wakeBill)
		return err
	}
	c.bell = bell
	return nil
}

// closeBell takes the descriptor back.
func (c *Client) closeBell() {
	if c.bell == nil {
		return
	}
	bell := c.bell
	c.bell, c.wakes = nil, false
	if c.lane.bed != nil {
		c.lane.bed.remove(bell)
	}
	c.after = append(c.after, func() {
		_ = bell.Close()
		c.e.shares.give(c.uid, wakeBill)
	})
}
