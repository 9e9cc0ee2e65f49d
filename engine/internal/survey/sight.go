//go:build linux && (amd64 || arm64)

package survey

import (
	"os"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/board"
)

// SeesAll reports whether a user may see the clients of all users: it is root or the device's own, who could
// read the device's memory anyway.
func SeesAll(uid uint32) bool { return uid == 0 || uid == uint32(os.Getuid()) }

// Sees reports whether a user may see what c does: it may see all, or c is of the same user. Clients whose
// uid stands for all users that have none in the engine's user namespace have no user.
func Sees(uid uint32, c *object.Client) bool { return sees(c.Device, uid, c.UID) }

func sees(e *object.Device, uid, other uint32) bool {
	if SeesAll(uid) {
		return true
	}
	user := e.Bulletin.Users.Of
	mine := user(uid)
	return mine != board.AllUsers && mine == user(other)
}
