//go:build linux && (amd64 || arm64)

package request

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/internal/board"
	"golang.org/x/sys/unix"
)

// obey carries out a command of a rule of faults. It is called while no shard works.
func obey(e Device, o inject.Command) {
	if k := e.Keys.Find(o.Key); k != nil && k.Client != nil && k.Windows == 0 {
		(&Client{Device: e, Client: k.Client}).removeKey(k)
	}
	if die := e.Deaths[o.Client]; die != nil {
		go die() // which waits for steps
	}
	if o.QP != 0 {
		rings{e}.spoil(o.QP)
	}
}

// die ends a client as the end of its process does. The process gets SIGKILL, and its server then closes
// the client. A client in the device's own process, or in one that cannot be killed, is closed.
func die(c *Client) {
	hasUser := c.Device.Bulletin.Users.Of(c.UID) != board.AllUsers
	if !hasUser || !killProcess(c.Hosted.PID, c.born, c.UID) {
		_ = c.Close()
	}
}

// killProcess sends SIGKILL to a client's process, and reports whether it has. A process that has the same
// number and was not born at that time (beginOf) is not the client's. One that runs as another user by now
// may be: execve keeps number and birth, but a set-user-ID program is not the client's user's to kill. Until
// such a program sets its real uid, that user may kill it without the device, so it does no harm if it is
// executed just after the question.
func killProcess(pid int, born string, uid uint32) bool {
	if pid <= 0 || pid == os.Getpid() || born == "" {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return beginOf(pid) == born && runsAs(pid, uid) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// runsAs reports whether a process has no other real, effective or saved uid than this one. All are uids of
// the device's user namespace, as those of SO_PEERCRED are.
func runsAs(pid int, uid uint32) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	want := strconv.FormatUint(uint64(uid), 10)
	for row := range strings.Lines(string(b)) { // in names of programs, the kernel escapes newlines
		if f := strings.Fields(row); len(f) == 5 && f[0] == "Uid:" {
			return f[1] == want && f[2] == want && f[3] == want
		}
	}
	return false
}

// beginOf returns when a process began, in clock ticks since the machine started; empty if it has ended. That
// is field 22 of /proc/PID/stat, and the second field may have spaces and parentheses (proc_pid_stat(5)).
func beginOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return string(fields[22-3])
}
