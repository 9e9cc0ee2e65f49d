//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

func createChannel(c *Client, _ *control.Empty, _ object.RequestMemory,
	r *control.Reply) (control.Message, error) {
	id, err := c.take("completion channels", len(c.Channels), c.Device.Settings.Limits.Channels, 0)
	if err != nil {
		return nil, err
	}
	if err := c.Device.Ledger.Take(c.UID, object.SocketCharge); err != nil {
		return nil, err
	}
	out, yours, err := c.NewNotifier()
	if err != nil {
		c.Device.Ledger.Refund(c.UID, object.SocketCharge)
		return nil, control.Errorf(control.CodeMemory, "completion channel: %v", err)
	}
	c.Channels[id] = &object.Channel{ID: id, Out: out}
	r.Events = yours
	return &control.Channel{ID: id}, nil
}

func destroyChannel(c *Client, m *control.Channel, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	ch, ok := c.Channels[m.ID]
	switch {
	case !ok:
		return nil, object.NotFound("completion channel", m.ID)
	case ch.Users > 0:
		return nil, object.Busy("completion channel", m.ID, ch.Users, "completion queue", "completion queues")
	}
	c.closeChannel(ch)
	return &control.Empty{}, nil
}

func (c *Client) closeChannel(ch *object.Channel) {
	delete(c.Channels, ch.ID)
	c.CloseSocket(ch.Out)
}
