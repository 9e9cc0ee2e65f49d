//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// openEvents gives the client a descriptor from which it receives explanations, and events
// about its objects. The descriptor replaces that of an earlier call.
func openEvents(c *Client, _ *control.Empty, _ object.RequestMemory,
	r *control.Reply) (control.Message, error) {
	if err := c.Device.Ledger.Take(c.UID, object.SocketCharge); err != nil {
		return nil, err
	}
	out, yours, err := c.NewNotifier()
	if err != nil {
		c.Device.Ledger.Refund(c.UID, object.SocketCharge)
		return nil, control.Errorf(control.CodeMemory, "events: %v", err)
	}
	c.closeEvents()
	c.Events, r.Events = out, yours
	return &control.Empty{}, nil
}

func (c *Client) closeEvents() {
	if c.Events != nil {
		c.CloseSocket(c.Events)
		c.Events = nil
	}
}

// Kinds of events, by the object that they are about.
var (
	qpEvents = []control.EventKind{control.EventQPFatal, control.EventInvalidRequest,
		control.EventAccessError, control.EventEstablished, control.EventDrained, control.EventLastWQE}
	cqEvents  = []control.EventKind{control.EventCQError}
	srqEvents = []control.EventKind{control.EventSRQLimit, control.EventSRQError}
)

// dropLate drops those events that wait for room and are about an object that is gone.
func dropLate(c *object.Client, number uint32, kinds []control.EventKind) {
	if c.Late.Len() == 0 {
		return
	}
	for _, kind := range kinds {
		c.Late.Remove(eventsocket.Event{Kind: kind, Number: number})
	}
	if c.Late.Len() == 0 {
		c.Shard.Arm.Late.Remove(c)
	}
}

// dropAllLate drops all events that wait for room.
func dropAllLate(c *object.Client) {
	c.Late = eventsocket.Late{}
	c.Shard.Arm.Late.Remove(c)
}
