//go:build linux && (amd64 || arm64)

package torture

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nicless/nicless/tools/internal/scratch"
	"golang.org/x/sys/unix"
)

// Users, if the supervisor is root. The engine's user has no privilege, so that the kernel's
// limits hold for the engine. Hostile clients whose attack uses up the resources of a user run as
// a different user than the correct clients. If the supervisor is not root, all processes have one user, and
// such hostile clients leave enough for the other clients.
const (
	engineUser = 61000
	// This is a multiple of 1021, as is 0, the user of correct clients, because an earlier
	// engine distinguished users only modulo 1021.
	hostileUser = 1021 * 60
)

// engineFiles is how many descriptors the engine may have. It is a common default limit, and
// small enough that the attacks do reach it.
const engineFiles = 1024

// makeDir makes the directory of a run. apart is true if the supervisor can run processes as
// other users, the engine's user may listen in the directory, and all users may connect.
func makeDir() (dir string, remove func(), apart bool, err error) {
	in := os.TempDir()
	if os.Geteuid() == 0 {
		for _, d := range []string{in, "/tmp"} {
			if apart = reachable(d); apart {
				in = d
				break
			}
		}
	}
	if dir, remove, err = scratch.Make(in); err == nil && apart {
		if err = errors.Join(os.Chown(dir, engineUser, engineUser), os.Chmod(dir, 0o711)); err != nil {
			remove()
		}
	}
	return dir, remove, apart, err
}

// reachable reports whether all users may search a directory.
func reachable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil || st.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return filepath.IsAbs(dir)
		}
	}
}

// become changes the user of this process to uid, a user without privilege. If uid is 0, it
// changes nothing.
func become(uid int) error {
	if uid == 0 || uid == os.Getuid() {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(uid); err != nil {
		return err
	}
	if err := syscall.Setuid(uid); err != nil {
		return err
	}
	// Now the process's files in /proc belong to that user, as if the user had started it.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}

// limitFiles limits the number of this process's descriptors to n.
func limitFiles(n uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur <= n {
		return err
	}
	l.Cur = n
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}

// socketMode returns the mode of the engine's socket. If the engine runs as another user than
// the supervisor, all users may connect.
func socketMode(user int) os.FileMode {
	if user == 0 {
		return 0o600
	}
	return 0o666
}
