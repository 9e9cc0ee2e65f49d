//go:build linux && (amd64 || arm64)

package request

import (
	"bytes"
	"fmt"
	"os"

	"github.com/nicless/nicless/engine/internal/inject"
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
}

// die ends a client as the end of its process does. The process gets SIGKILL, and its server then closes
// the client. A client in the device's own process, or in one that cannot be killed, is closed.
func die(c *Client) {
	if !killProcess(c.Hosted.PID, c.born) {
		_ = c.Close()
	}
}

// killProcess sends SIGKILL to a client's process, and reports whether it has. A process that has the same
// number and was not born at that time (beginOf) is not the client's.
func killProcess(pid int, born string) bool {
	if pid <= 0 || pid == os.Getpid() || born == "" {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return beginOf(pid) == born && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
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
