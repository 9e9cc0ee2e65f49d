//go:build linux && (amd64 || arm64)

package bulletin

import (
	"github.com/nicless/nicless/engine/internal/userns"
	"github.com/nicless/nicless/internal/board"
)

// Users says which clients belong to the same user. Uids that one user owns, as package quota has it,
// are one user. Engines exchange users, so a user has the number of the user namespace around this engine.
// The users of other engines are taken as they are: this host's /etc/subuid says nothing of other hosts.
type Users struct {
	Payer func(uid uint32) uint32
	space userns.Map
}

// UsersOf returns the users of this process's user namespace.
func UsersOf(payer func(uid uint32) uint32) Users { return Users{payer, userns.Read()} }

// Of returns the user of a client: board.AllUsers if the client has none, because its uid stands for all
// users that have none here.
func (u Users) Of(uid uint32) uint32 {
	if _, ok := u.space.Outside(uid); !ok {
		return board.AllUsers
	}
	if user, ok := u.space.Outside(u.Payer(uid)); ok {
		return user
	}
	return board.AllUsers
}
