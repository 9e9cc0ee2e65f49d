//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/internal/control"
)

// CloseSocket closes an event socket of this client, off the engine's thread.
func (c *Client) CloseSocket(n *Notifier) {
	c.After = append(c.After, func() {
		n.Close()
		c.Device.Ledger.Refund(c.UID, SocketCharge)
	})
}

// Send sends an explanation or an announcement, and reports whether there was room for it. Events about
// objects come first.
func (c *Client) Send(ev *control.Event) bool {
	return c.Events != nil && c.Late.Len() == 0 && c.send(ev) == nil
}

func (c *Client) send(ev *control.Event) error {
	b := control.Append(nil, control.OpOpenEvents, control.FlagAnswer, 0, ev)
	err := c.Events.Send(Notice{message: b})
	if err == nil {
		c.Count[control.CounterEvents]++
	}
	return err
}

// Event sends a client an event about one of its objects, now or when there is room for it.
func (c *Client) Event(kind control.EventKind, number uint32) {
	ev := eventsocket.Event{Kind: kind, Number: number}
	if c.Events != nil && (c.Late.Len() > 0 || !c.TryEvent(ev)) {
		c.Late.Add(ev)
		c.Shard.Arm.Late.Add(c)
	}
}

// TryEvent sends an event about an object. It returns false if there is no room now.
func (c *Client) TryEvent(ev eventsocket.Event) bool {
	err := c.send(&control.Event{Kind: ev.Kind, Number: ev.Number})
	full, _ := c.Events.Room.After(err, c.Shard.Now())
	return !full
}
