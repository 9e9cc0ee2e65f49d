//go:build linux && (amd64 || arm64)

// Package userns says which user a uid is outside of this process's user namespace.
//
// A uid is a number within a user namespace. Two engines of a host may run in different namespaces, as in
// containers: uid 0 of one namespace is uid 100000 of the other. So engines that tell each other of users use
// the uids of the namespace outside, which /proc/self/uid_map has. If the namespace outside is itself within
// another namespace, these uids are not those of the host.
package userns

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// A Map says which uids of this process's namespace are which outside. The zero value has none.
type Map struct {
	ranges   []uidRange
	overflow uint32 // stands for all users without a uid in this namespace
}

// A uidRange is a line of /proc/self/uid_map.
type uidRange struct{ inside, outside, count uint64 }

// Read returns the map of this process.
func Read() Map { return read("/proc/self/uid_map", "/proc/sys/kernel/overflowuid") }

func read(mapPath, overflowPath string) Map {
	text, _ := os.ReadFile(mapPath)
	overflow, _ := os.ReadFile(overflowPath)
	return parse(text, overflow)
}

// defaultOverflow is the uid that the kernel shows for users without a uid, unless another uid is set.
const defaultOverflow = 65534

func parse(text, overflow []byte) (m Map) {
	m.overflow = defaultOverflow
	if n, err := strconv.ParseUint(strings.TrimSpace(string(overflow)), 10, 32); err == nil {
		m.overflow = uint32(n)
	}
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) != 3 {
			continue
		}
		inside, err1 := strconv.ParseUint(f[0], 10, 32)
		outside, err2 := strconv.ParseUint(f[1], 10, 32)
		count, err3 := strconv.ParseUint(f[2], 10, 32)
		if err1 == nil && err2 == nil && err3 == nil {
			m.ranges = append(m.ranges, uidRange{inside, outside, count})
		}
	}
	return m
}

// Outside returns the uid outside of the namespace. It returns false for a uid that stands for no user, and
// for the uid that stands for all users without a uid in the namespace, because they are not one user.
func (m Map) Outside(uid uint32) (uint32, bool) {
	if uid == m.overflow {
		return 0, false
	}
	for _, r := range m.ranges {
		if n := uint64(uid); n >= r.inside && n-r.inside < r.count {
			if n = n - r.inside + r.outside; n < 1<<32-1 {
				return uint32(n), true
			}
		}
	}
	return 0, false
}
