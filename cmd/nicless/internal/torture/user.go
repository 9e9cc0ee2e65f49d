package torture

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Users, where the supervisor is root and can make processes anybody's: the
// engine has no privilege, so that the limits of the kernel hold for it, and chaos
// clients that use up what a user may have are of another user than correct clients.
// Elsewhere all are of one user, and such clients stay within what is left for others.
const (
	engineUser = 61000
	// A multiple of 1021: users used to be told apart modulo that, and correct
	// clients are of user 0.
	strangeUser = 1021 * 60
)

// engineFiles is how many descriptors the engine may have: as few as many systems give a
// process, so that it is soon seen
// what happens where there are no more.
const engineFiles = 1024

// makeDir makes the directory of a run. apart: the engine's user may listen there and
// all may connect, and the supervisor may make processes theirs.
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

// reachable reports whether all users may look for files in a directory.
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

// become makes the process one of a user without privilege.
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
	// As if it had been started by that user: its files in /proc are its own.
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

// socketMode lets all users connect to an engine that is of another than they.
func socketMode(user int) os.FileMode {
	if user == 0 {
		return 0o600
	}
	return 0o666
}
