//go:build linux && (amd64 || arm64)

package cores

import (
	"os"
	"strconv"
	"strings"
)

// Times is how long a thread has been on a core and how long it has waited for one, in
// nanoseconds. While the thread runs, Ran can be some milliseconds old.
type Times struct{ Ran, Waited uint64 }

// Threads returns the ids of a process's threads. The process is an id, or "self".
func Threads(process string) (ids []string) {
	dir, err := os.Open("/proc/" + process + "/task")
	if err != nil {
		return nil
	}
	defer dir.Close()
	ids, _ = dir.Readdirnames(-1)
	return ids
}

// TimesOf returns the times of one thread of a process. ok is false if the thread has ended, or
// if the kernel has no schedstat.
func TimesOf(process, thread string) (t Times, ok bool) {
	text, err := os.ReadFile("/proc/" + process + "/task/" + thread + "/schedstat")
	if err != nil {
		return t, false
	}
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return t, false
	}
	t.Ran, _ = strconv.ParseUint(f[0], 10, 64)
	t.Waited, _ = strconv.ParseUint(f[1], 10, 64)
	return t, true
}
