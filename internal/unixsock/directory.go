//go:build linux && (amd64 || arm64)

package unixsock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// MakeDirectory makes a directory in which only this user can write. If the directory exists
// already, MakeDirectory checks that only this user can write in it. In a place where every
// user may write, such as /tmp, another user may have made the directory, or a link of its name.
// That user could then choose where this process writes and removes files.
func MakeDirectory(dir string, mode fs.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s belongs to user %d and has mode %#o; it has to be a directory of user %d in which no other user may write",
			dir, st.Uid, st.Mode, os.Geteuid())
	}
	return nil
}
