//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// announce replaces what this client announces to clients of its user.
func announce(c *Client, payload []byte) (control.Message, error) {
	var m control.Announce
	if err := control.Parse(control.OpAnnounce, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	return c.postFor(control.AudienceUser, m.Value)
}

// announceTo replaces what this client announces to an audience.
func announceTo(c *Client, payload []byte) (control.Message, error) {
	var m control.AnnounceTo
	if err := control.Parse(control.OpAnnounceTo, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	return c.postFor(m.Audience, m.Value)
}

// postFor replaces what this client announces to an audience (control.AudienceUser or AudienceAll).
func (c *Client) postFor(audience uint32, value string) (control.Message, error) {
	if len(value) > control.MaxAnnouncement {
		return nil, control.Errorf(control.CodeInvalid, "announcement of %d bytes; at most %d are possible", len(value), control.MaxAnnouncement)
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return nil, object.ErrClosed
	}
	_, n := rendezvous.Split(value)
	if n.Box != 0 && n.Box != c.Device.Boxes.Of(c.Client) {
		return nil, control.Errorf(control.CodeInvalid, "names with box %#016x, which is not the client's", n.Box)
	}
	to := board.AllUsers
	switch {
	case audience == control.AudienceAll:
	case audience != control.AudienceUser:
		return nil, control.Errorf(control.CodeInvalid, "audience %d; %d (clients of the user) and %d (all clients) are possible", audience, control.AudienceUser, control.AudienceAll)
	case value != "":
		if to = c.Device.Bulletin.Users.Of(c.UID); to == board.AllUsers {
			return nil, control.Errorf(control.CodeInvalid, "uid %d stands for all users that have no uid here, so these are not one user; announce to all clients, or connect as a user that has one", c.UID)
		}
	}
	if n.Box != 0 {
		c.Device.Boxes.Listen(c.Client, to) // before anybody reads the names
	}
	told, err := c.Device.Bulletin.Post(c.Client, c.Client.Device.GUID, to, value)
	if err != nil {
		return nil, err
	}
	c.Device.NotifyAnnouncements(told)
	return &control.Empty{}, nil
}
