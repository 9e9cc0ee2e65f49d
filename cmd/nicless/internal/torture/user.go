//go:build linux && (amd64 || arm64)

package torture

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Users, if the supervisor is root: the engine's user has no privilege, so that the
// kernel's limits hold for the engine, and hostile clients that use up what one user may
// have run as another user than correct clients. If the supervisor is not root, there is
// one user, and such clients leave enough for the others.
const (
	engineUser = 61000
	// A multiple of 1021, like the correct clients' user 0: the engine once
	// distinguished users modulo 1021 only.
	hostileUser = 1021 * 60
)

// engineFiles is how many descriptors the engine may have. That is a common default limit,
// and so few that they do run out.
const engineFiles = 1024

// makeDir makes the directory of a run. apart is true if the supervisor can run processes as
// other users, the engine's user may listen in the directory, and all may connect.
func makeDir() (dir string, apart bool, err error) {
	in := os.TempDir()
	if os.Geteuid() == 0 {
		for _, d := range []string{in, "/tmp"} {
			if apart = reachable(d); apart {
				in = d
				break
			}
		}
	}
	if dir, err = os.MkdirTemp(in, "nicless-torture-"); err == nil && apart {
		err = errors.Join(os.Chown(dir, engineUser, engineUser), os.Chmod(dir, 0o711))
	}
	return dir, apart, err
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

// become changes the user of this process to one without privilege; 0 changes nothing.
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
	// As if that user had started the process: its files in /proc belong to the user.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}

// limitFiles bounds the descriptors of this process.
func limitFiles(n uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur <= n {
		return err
	}
	l.Cur = n
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}

// socketMode lets all users connect to an engine that runs as a user of its own.
func socketMode(user int) os.FileMode {
	if user == 0 {
		return 0o600
	}
	return 0o666
}
