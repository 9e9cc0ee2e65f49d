//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// nextAnnouncement returns the first announcement after a place that is another client's and that this client
// may read.
func nextAnnouncement(c *Client, payload []byte) (control.Message, error) {
	var m control.AnnouncementPlace
	if err := control.Parse(control.OpNextAnnouncement, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return nil, object.ErrClosed
	}
	return c.Device.Bulletin.Next(c.Client, c.UID, m), nil
}

// Announced returns the announcements of this device's clients.
func (d Device) Announced() []board.Entry { return d.Bulletin.Entries() }

// OnAnnounce makes the device call f when the result of Announced has changed.
func (d Device) OnAnnounce(f func()) { d.Bulletin.OnChange(f) }

// SetAnnounced replaces the announcements of the clients of another device, which came over a link.
func (d Device) SetAnnounced(link any, guid uint64, list []board.Entry) {
	if guid != d.Runner.GUID {
		d.NotifyAnnouncements(d.Bulletin.Set(link, guid, list))
	}
}
