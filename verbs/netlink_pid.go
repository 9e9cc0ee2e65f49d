//go:build linux && (amd64 || arm64)

package verbs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Process numbers as the reader of an answer has them. A process has one number in its own PID namespace and
// one in each namespace above it, and programs look for that number in their own /proc.

// An opener is the process that opened a context.
type opener struct {
	pid   int32 // in this server's PID namespace; 0: it has none there
	ended atomic.Bool
}

// A pidView is the PID namespace of a reader.
type pidView struct {
	depth int    // levels from this server's namespace, which is 1; 0: the reader is not below it
	inode uint64 // identifies the namespace; 0: unknown
}

// viewOf returns the view of a process, whose number is one of this server's namespace.
func viewOf(pid int32) pidView {
	if pid <= 0 {
		return pidView{}
	}
	v := pidView{depth: max(1, len(numbersOf(pid)))}
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", pid), &st) == nil {
		v.inode = st.Ino
	}
	return v
}

// numbersOf returns the numbers of a process in this server's PID namespace and in those below it.
func numbersOf(pid int32) (all []int32) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if list, ok := strings.CutPrefix(lines.Text(), "NSpid:"); ok {
			for _, f := range strings.Fields(list) {
				n, _ := strconv.ParseInt(f, 10, 32)
				all = append(all, int32(n))
			}
		}
	}
	return all
}

// number returns a process's number as the reader has it; 0: it has none there, or the process has ended.
func (v pidView) number(o *opener) uint32 {
	switch {
	case o == nil || o.pid <= 0 || o.ended.Load() || v.depth == 0:
		return 0
	case v.depth == 1: // the usual case: the reader is in this server's namespace
		return uint32(o.pid)
	}
	all := numbersOf(o.pid)
	if len(all) < v.depth || v.inode == 0 || namespaceAbove(o.pid, len(all)-v.depth) != v.inode {
		return 0
	}
	return uint32(all[v.depth-1])
}

// namespaceAbove returns the inode of the PID namespace that is so many levels above that of a process; 0:
// this server may not find out.
func namespaceAbove(pid int32, levels int) uint64 {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/pid", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for ; err == nil && levels > 0; levels-- {
		var above int
		above, err = unix.IoctlRetInt(fd, unix.NS_GET_PARENT)
		_ = unix.Close(fd)
		fd = above
	}
	if err != nil {
		return 0
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	_ = unix.Close(fd)
	if err != nil {
		return 0
	}
	return st.Ino
}
