//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// nextAnnouncement returns the first announcement after a place that is another client's and that this client
// may read.
func nextAnnouncement(c *Client, m *control.AnnouncementPlace) (control.Message, error) {
	return c.Device.Bulletin.Next(c.Client, c.UID, *m), nil
}

// nextChange returns the first change of announcements after a number that is another client's and that this
// client may know.
func nextChange(c *Client, m *control.ChangesSince) (control.Message, error) {
	if m.Notify > 1 {
		return nil, control.Errorf(control.CodeInvalid, "notify %d; 0 and 1 are possible", m.Notify)
	}
	return c.Device.Bulletin.NextChange(c.Client, c.UID, m.Since, m.Notify == 1), nil
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
