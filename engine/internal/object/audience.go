//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/userns"
	"github.com/nicless/nicless/internal/board"
)

// An announcement may contain keys of memory, and the numbers of a connection. So it is for clients of one
// user, if its client does not say that it is for everybody.

// isFor reports whether clients of a user may read an announcement. The user board.Everybody is nobody: it reads
// what everybody may read.
func (p *posted) isFor(user uint32) bool { return p.To == board.AllUsers || p.To == user }

// Type users says which clients belong to the same user. Uids that one user owns, as package quota has it, are one
// user. Engines tell each other of users, so a user has the number of the user namespace around this
// engine. What other engines say is taken as it is: this host's /etc/subuid says nothing of other hosts.
type users struct {
	Payer func(uid uint32) uint32
	space userns.Map
}

// Of returns the user of a client: board.Everybody if the client has none, because its uid stands for all
// users that have none here.
func (u users) Of(uid uint32) uint32 {
	if _, ok := u.space.Outside(uid); !ok {
		return board.AllUsers
	}
	if user, ok := u.space.Outside(u.Payer(uid)); ok {
		return user
	}
	return board.AllUsers
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
