//go:build linux && (amd64 || arm64)

package request

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// openBox gives this client a box for messages.
func openBox(c *Client, _ *control.Empty) (control.Message, error) {
	number, err := c.Device.Boxes.Open(c.Client)
	return &control.Box{Number: number}, err
}

// sendMessage sends a message from this client's box. Other requests of the client do not wait for it,
// because a link may have to open first.
func sendMessage(c *Client, payload []byte) (control.Message, error) {
	var m control.BoxMessage
	if err := control.Parse(control.OpSendMessage, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	from := c.Device.Boxes.Of(c.Client)
	user := c.Device.Bulletin.Users.Of(c.UID)
	switch {
	case from == 0:
		return nil, control.Errorf(control.CodeState, "this client has no box for answers; open_box comes first")
	case len(m.Value) > control.MaxMessageValue:
		return nil, control.Errorf(control.CodeInvalid, "message of %d bytes; at most %d are possible", len(m.Value), control.MaxMessageValue)
	case m.Device == c.Device.Runner.GUID:
		sent := nic.BoxMessage{Device: m.Device, Number: from, User: user, Value: m.Value}
		return &control.Empty{}, c.Device.Deliver(m.Number, sent)
	}
	to := nic.BoxMessage{Device: m.Device, Number: m.Number, GID: m.GID, User: user, Value: m.Value}
	send := c.Device.Boxes.Sender()
	err := fmt.Errorf("%w, because this engine has no links (--link)", nic.ErrNoWay)
	if send != nil {
		err = send(to, from, nic.User{UID: c.UID, Name: c.Client.Name})
	}
	switch {
	case err == nil:
		return &control.Empty{}, nil
	case errors.Is(err, nic.ErrDenied):
		return nil, control.Errorf(control.CodeDenied, "message to %s: %v", to.Place(), err)
	case errors.Is(err, nic.ErrNoWay):
		return nil, control.Errorf(control.CodeNotFound, "message to %s: %v", to.Place(), err)
	}
	return nil, control.Errorf(control.CodeBusy, "message to %s: %v", to.Place(), err)
}

// nextMessage takes the oldest message from this client's box.
func nextMessage(c *Client, payload []byte) (control.Message, error) {
	if err := control.Parse(control.OpNextMessage, payload, &control.Empty{}); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	m, _ := c.Device.Boxes.Next(c.Client)
	return &control.BoxMessage{Device: m.Device, Number: m.Number, GID: m.GID, Value: m.Value}, nil
}

// Deliver puts a message into the box of a client of this device, and notifies the client. It drops the
// message if there is no such box, or if it is full, and refuses it if it dials a name for another user.
func (d Device) Deliver(to uint64, m nic.BoxMessage) error {
	found, err := d.Boxes.Deliver(to, m)
	owner, ok := found.(*object.Client)
	if !ok {
		return err
	}
	sent := false
	d.DoWith(mailbox.NoWork, func() { sent = owner.Send(&control.Event{Kind: control.EventMessages}) })
	if !sent {
		d.Boxes.Missed(owner)
	}
	return nil
}

// OnMessage makes the device call f with messages to other devices; nil: none leave.
func (d Device) OnMessage(f func(to nic.BoxMessage, from uint64, who nic.User) error) {
	d.Boxes.SetSender(f)
}
