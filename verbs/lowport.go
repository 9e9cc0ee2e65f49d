//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mayBindLow reports whether a process may take ports below 1024: whether it has the
// capability CAP_NET_BIND_SERVICE in the user namespace to which its network namespace belongs.
// In a user namespace of its own every process can have all capabilities.
func mayBindLow(pid int32, uid uint32) bool {
	if uid == 0 {
		return true
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, line := range strings.Split(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && caps&(1<<unix.CAP_NET_BIND_SERVICE) != 0 && rulesNetwork(pid)
		}
	}
	return false
}

// rulesNetwork reports whether the network namespace of a process belongs to the user namespace of
// the process or to a descendant of that.
func rulesNetwork(pid int32) bool {
	var own, owner unix.Stat_t
	network, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	err = unix.Stat(fmt.Sprintf("/proc/%d/ns/user", pid), &own)
	for at, ask := network, uint(unix.NS_GET_USERNS); ; ask = unix.NS_GET_PARENT {
		next := -1
		if err == nil {
			next, err = unix.IoctlRetInt(at, ask)
		}
		_ = unix.Close(at)
		if err != nil { // also at the first ancestor that this process may not see
			return false
		}
		if at, err = next, unix.Fstat(next, &owner); err == nil && owner.Dev == own.Dev &&
			owner.Ino == own.Ino {
			_ = unix.Close(at)
			return true
		}
	}
}
