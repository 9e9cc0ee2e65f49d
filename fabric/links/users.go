//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// Users are those for whom RoCE opens by itself. The zero value is root and this process's own user.
type Users struct {
	All  bool
	UIDs []uint32 // if All is false, these only; nil: root and this process's own user
}

// ParseUsers reads a list of names of users and uids, or "all". No list means root and this process's
// own user. A list names all users who may: the own user only if it is in the list.
func ParseUsers(list []string) (u Users, err error) {
	for _, s := range list {
		s = strings.TrimSpace(s)
		switch {
		case s == "all" && len(list) == 1:
			return Users{All: true}, nil
		case s == "all":
			return u, fmt.Errorf("users %q: all excludes other users", strings.Join(list, ","))
		}
		uid, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			known, err := user.Lookup(s)
			if err != nil {
				return u, fmt.Errorf("user %q: this host has none of that name; a name, a uid or all is needed", s)
			}
			if uid, err = strconv.ParseUint(known.Uid, 10, 32); err != nil {
				return u, fmt.Errorf("user %q: uid %q is no number of 32 bits", s, known.Uid)
			}
		}
		if !slices.Contains(u.UIDs, uint32(uid)) {
			u.UIDs = append(u.UIDs, uint32(uid))
		}
	}
	return u, nil
}

// may reports whether RoCE opens by itself for a user.
func (u *Users) may(uid uint32) bool {
	if u.All {
		return true
	}
	if u.UIDs == nil {
		return uid == 0 || uid == uint32(os.Geteuid())
	}
	return slices.Contains(u.UIDs, uid)
}
