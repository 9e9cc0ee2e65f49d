//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/userns"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/control"
)

// An announcement may contain keys of memory, and the numbers of a connection. So it is for clients of one
// user, if its client does not say that it is for everybody.

// isFor reports whether clients of a user may read an announcement. The user board.Everybody is nobody: it reads
// what everybody may read.
func (p *posted) isFor(user uint32) bool { return p.to == board.Everybody || p.to == user }

// Type users says which clients belong to the same user. Uids that one user owns, as package quota has it, are one
// user. Engines tell each other of users, so a user has the number of the user namespace around this
// engine. What other engines say is taken as it is: this host's /etc/subuid says nothing of other hosts.
type users struct {
	payer func(uid uint32) uint32
	space userns.Map
}

// of returns the user of a client: board.Everybody if the client has none, because its uid stands for all
// users that have none here.
func (u users) of(uid uint32) uint32 {
	if _, ok := u.space.Outside(uid); !ok {
		return board.Everybody
	}
	if user, ok := u.space.Outside(u.payer(uid)); ok {
		return user
	}
	return board.Everybody
}

// announce replaces what this client announces to clients of its user.
func (c *caller) announce(payload []byte) (control.Message, error) {
	var m control.Announce
	if err := control.Parse(control.OpAnnounce, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	return c.postFor(control.AudienceUser, m.Value)
}

// announceTo replaces what this client announces to an audience.
func (c *caller) announceTo(payload []byte) (control.Message, error) {
	var m control.AnnounceTo
	if err := control.Parse(control.OpAnnounceTo, payload, &m); err != nil {
		return nil, control.Errorf(control.CodeInvalid, "%v", err)
	}
	return c.postFor(m.Audience, m.Value)
}

func (c *caller) postFor(audience uint32, value string) (control.Message, error) {
	if len(value) > control.MaxAnnouncement {
		return nil, control.Errorf(control.CodeInvalid, "announcement of %d bytes; at most %d are possible", len(value), control.MaxAnnouncement)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	to := board.Everybody
	switch {
	case audience == control.AudienceAll:
	case audience != control.AudienceUser:
		return nil, control.Errorf(control.CodeInvalid, "audience %d; %d (clients of the user) and %d (all clients) are possible", audience, control.AudienceUser, control.AudienceAll)
	case value != "":
		if to = c.e.bulletin.users.of(c.uid); to == board.Everybody {
			return nil, control.Errorf(control.CodeInvalid, "uid %d stands for all users that have no uid here, so these are not one user; announce to all clients, or connect as a user that has one", c.uid)
		}
	}
	told, err := c.e.bulletin.post(c.client, to, value)
	if err != nil {
		return nil, err
	}
	c.e.tellAnnouncements(told)
	return &control.Empty{}, nil
}

// difference returns what is in one of two sorted lists only.
func difference(a, b []posted) (only []posted) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].compare(b[0].AnnouncementPlace) < 0:
			only, a = append(only, a[0]), a[1:]
		case len(a) == 0 || a[0].compare(b[0].AnnouncementPlace) > 0:
			only, b = append(only, b[0]), b[1:]
		default:
			if a[0] != b[0] {
				only = append(only, a[0], b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return only
}
