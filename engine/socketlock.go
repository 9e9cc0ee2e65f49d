package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// In a directory where everybody may write, such as /tmp, anybody can make PATH.lock
// and hold it. That cannot be prevented there, so the error names the holder.

const ownDirectory = "choose a path in a directory of your own, such as $XDG_RUNTIME_DIR"

// lockSocket takes the lock of a socket path, which lasts until the file is
// closed. A lock file is removed by the process that holds it, so a lock that was taken
// counts only if the file is still the one at that path.
func lockSocket(path string) (*os.File, error) {
	name := path + ".lock"
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("engine: socket: %w%s", err, strangers(name))
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			defer f.Close()
			return nil, heldBy(path, f)
		}
		mine, err := f.Stat()
		if there, err2 := os.Lstat(f.Name()); err == nil && err2 == nil && os.SameFile(mine, there) {
			return f, nil
		}
		_ = f.Close()
	}
}

func unlockSocket(f *os.File) {
	_ = os.Remove(f.Name())
	_ = f.Close()
}

// heldBy names the process that has the lock of a socket path, and says whether an
// engine listens there.
func heldBy(path string, lock *os.File) error {
	what := "no engine can listen at " + path
	if c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"}); err == nil {
		_ = c.Close()
		what = "another engine is listening at " + path
	}
	who, advice := "a process that /proc/locks does not show", ""
	var st unix.Stat_t
	if locks, err := os.ReadFile("/proc/locks"); err == nil && unix.Fstat(int(lock.Fd()), &st) == nil {
		if pid := lockHolder(locks, st.Dev, st.Ino); pid > 0 {
			var uid int
			if who, uid = describeProcess(pid); uid >= 0 && uid != os.Geteuid() {
				advice = "; " + ownDirectory
			}
		}
	}
	if note := strangers(lock.Name()); note != "" {
		advice = note
	}
	return fmt.Errorf("engine: %s: %s holds %s%s", what, who, lock.Name(), advice)
}

// strangers says, as the end of a sentence, that a file is another user's, and what to do
// then.
func strangers(name string) string {
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
// It returns 0 if that is not shown, as for processes of another pid namespace.
func lockHolder(locks []byte, dev, inode uint64) (pid int) {
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), inode)
	for row := range bytes.Lines(locks) {
		f := strings.Fields(string(row))
		if len(f) == 8 && f[1] == "FLOCK" && f[5] == file { // the row of a process that waits has an arrow more
			if pid, err := strconv.Atoi(f[4]); err == nil {
				return pid
			}
		}
	}
	return 0
}

// describeProcess says what a process runs and for which user. uid is -1 if that is not
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
		if f := strings.Fields(string(row)); len(f) == 5 && f[0] == "Uid:" { // real, effective
			uid, _ = strconv.Atoi(f[2])
		}
	}
	const most = 80
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	command = bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte{' '})
	return fmt.Sprintf("process %d of user %d, %q,", pid, uid, command[:min(len(command), most)]), uid
}
