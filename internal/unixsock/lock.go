//go:build linux && (amd64 || arm64)

package unixsock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// In a directory where all users may write, such as /tmp, any user can make PATH.lock and
// hold its lock. The server cannot prevent that, so its error names the holder.

const ownDirectory = "choose a path in a directory of your own, such as $XDG_RUNTIME_DIR"

// A Lock keeps two servers that start at the same time from using one path. The kernel
// releases the lock when the process ends.
type Lock struct{ file *os.File }

// LockPath takes the lock of a socket path, which is a lock on the file PATH.lock. It does not
// wait: if another process holds the lock, the error names that process. The argument
// server is the error's word for the kind of process, for example "engine".
func LockPath(path, server string) (*Lock, error) {
	name := path + ".lock"
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("socket: %w%s", err, otherOwner(name))
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			defer f.Close()
			return nil, heldBy(path, server, f)
		}
		// A process that holds the lock removes the file and then releases the lock. So this
		// lock is valid only if the file that was locked is still at the path.
		locked, err := f.Stat()
		if there, err2 := os.Lstat(name); err == nil && err2 == nil && os.SameFile(locked, there) {
			return &Lock{f}, nil
		}
		_ = f.Close()
	}
}

// Unlock removes the lock file and releases the lock.
func (l *Lock) Unlock() {
	_ = os.Remove(l.file.Name())
	_ = l.file.Close()
}

// heldBy returns an error that names the process with the lock of a socket path, and says
// whether a server listens at the path.
func heldBy(path, server string, lock *os.File) error {
	state := "no " + server + " can listen at " + path
	if answers(path) == nil {
		state = "another " + server + " is listening at " + path
	}
	holder, advice := "a process that /proc/locks does not show", ""
	var st unix.Stat_t
	if locks, err := os.ReadFile("/proc/locks"); err == nil && unix.Fstat(int(lock.Fd()), &st) == nil {
		if pid := lockHolder(locks, st.Dev, st.Ino); pid > 0 {
			var uid int
			if holder, uid = describeProcess(pid); uid >= 0 && uid != os.Geteuid() {
				advice = "; " + ownDirectory
			}
		}
	}
	if note := otherOwner(lock.Name()); note != "" {
		advice = note
	}
	return fmt.Errorf("%s: %s holds %s%s", state, holder, lock.Name(), advice)
}

// otherOwner returns the end of an error's text. If a file belongs to another user, the text
// says so and says what to do; otherwise it is empty.
func otherOwner(name string) string {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil || int(st.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("; %s belongs to user %d: %s", name, st.Uid, ownDirectory)
}

// lockHolder finds the process that has locked a file by flock, in rows such as
//
//	1: FLOCK  ADVISORY  WRITE 16707 fe:00:9978050 0 EOF
//
// It returns 0 if there is no such row, for example because the process is in another pid
// namespace.
func lockHolder(locks []byte, dev, inode uint64) (pid int) {
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), inode)
	for row := range bytes.Lines(locks) {
		f := strings.Fields(string(row))
		// the row of a waiting process has one more column, an arrow
		if len(f) == 8 && f[1] == "FLOCK" && f[5] == file {
			if pid, err := strconv.Atoi(f[4]); err == nil {
				return pid
			}
		}
	}
	return 0
}

// describeProcess returns what a process runs and its user's uid. uid is -1 if the user is not
// known.
func describeProcess(pid int) (text string, uid int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH):
		return fmt.Sprintf("a child of process %d, which is gone,", pid), -1
	case err != nil:
		return fmt.Sprintf("process %d", pid), -1
	}
	uid = -1
	for row := range bytes.Lines(status) {
		// real, effective, saved, file system
		if f := strings.Fields(string(row)); len(f) == 5 && f[0] == "Uid:" {
			uid, _ = strconv.Atoi(f[2])
		}
	}
	const most = 80
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	command = bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte{' '})
	return fmt.Sprintf("process %d of user %d, %q,", pid, uid, command[:min(len(command), most)]), uid
}
