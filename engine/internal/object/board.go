//go:build linux && (amd64 || arm64)

package object

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/bulletin"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/internal/control"
)

// announcements are what clients of this device and of linked ones announce.
type announcements = bulletin.Bulletin[*Client]

// NotifyAnnouncements sends events, on the engine's thread, because that opens and closes the
// sockets. Other work has its turn after each portion. A client whose socket is full is notified of
// the next change.
func (e *Device) NotifyAnnouncements(told []*Client) {
	for some := range slices.Chunk(told, Portion) {
		var missed []*Client
		e.DoWith(mailbox.NoWork, func() {
			for _, c := range some {
				if !c.Send(&control.Event{Kind: control.EventAnnouncements}) {
					missed = append(missed, c)
				}
			}
		})
		e.Bulletin.NotifyLater(missed)
	}
}

// LeaveBoard withdraws what a client announces. The client is not notified any more.
func (e *Device) LeaveBoard(c *Client) { e.NotifyAnnouncements(e.Bulletin.Leave(c)) }
