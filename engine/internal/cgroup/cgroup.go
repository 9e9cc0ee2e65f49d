//go:build linux && (amd64 || arm64)

// Package cgroup finds out how much time of the cores and how much memory control groups allow this
// process.
//
// A process is in a control group, and each group is in a parent group, up to the mount. Each
// of these groups may have a limit, and the least limit counts. The package reads both
// versions of control groups. It also works in containers, where the mount is the process's
// own group, but the group has the name that it has on the host.
//
// CPUQuota and MemoryLimit take the root of a file system: os.DirFS("/"), or a test's own root.
package cgroup

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// CPUQuota returns how much time the process may use, in cores; 0.5 is half the time of one
// core. It returns infinity if there is no quota.
func CPUQuota(root fs.FS) float64 { return least(root, "cpu", cpuQuotaOf) }

// MemoryLimit returns how many bytes of memory the process may use. It returns infinity if
// there is no limit.
func MemoryLimit(root fs.FS) float64 { return least(root, "memory", memoryLimitOf) }

// least returns the least limit that a controller sets for the groups that this process is
// in. limitOf returns the limit of the group at dir.
func least(root fs.FS, controller string, limitOf func(root fs.FS, dir string) float64) float64 {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return math.Inf(1)
	}
	limit := math.Inf(1)
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // "0::/user/job" or "3:cpu,cpuacct:/job"
		if len(f) != 3 {
			continue
		}
		for _, mount := range mounts(f[1], controller) {
			limit = min(limit, leastUpwards(root, mount, f[2], limitOf))
		}
	}
	return limit
}

// mounts returns the places where the groups of controllers may be mounted, if controller is
// one of them, and otherwise nothing. In version 2 the string controllers is empty.
func mounts(controllers, controller string) []string {
	const base = "sys/fs/cgroup"
	switch {
	case controllers == "":
		return []string{base, base + "/unified"}
	case strings.Contains(","+controllers+",", ","+controller+","):
		return []string{base + "/" + controller, base + "/" + controllers}
	}
	return nil
}

// leastUpwards returns the least limit of a group and its parents up to the mount. In a
// container the group may have the name that it has on the host. Then no folder has this
// name, and the mount is the group.
func leastUpwards(root fs.FS, mount, group string, limitOf func(root fs.FS, dir string) float64) float64 {
	limit := math.Inf(1)
	for dir := path.Join(mount, path.Clean("/"+group)); ; dir = path.Dir(dir) {
		limit = min(limit, limitOf(root, dir))
		if len(dir) <= len(mount) {
			return limit
		}
	}
}

// cpuQuotaOf returns the quota of one group. It is in cpu.max, or in version 1 in two files.
func cpuQuotaOf(root fs.FS, dir string) float64 {
	f := words(root, dir, "cpu.max") // "50000 100000", or "max 100000"
	if len(f) != 2 {
		f = append(words(root, dir, "cpu.cfs_quota_us"), words(root, dir, "cpu.cfs_period_us")...)
	}
	if len(f) != 2 {
		return math.Inf(1)
	}
	time, err1 := strconv.ParseFloat(f[0], 64)
	period, err2 := strconv.ParseFloat(f[1], 64)
	if err1 != nil || err2 != nil || time <= 0 || period <= 0 {
		return math.Inf(1)
	}
	return time / period
}

// memoryLimitOf returns the limit of one group. It is in memory.max, or in version 1 in
// another file.
func memoryLimitOf(root fs.FS, dir string) float64 {
	// "1073741824", or "max".
	f := append(words(root, dir, "memory.max"), words(root, dir, "memory.limit_in_bytes")...)
	if len(f) != 1 {
		return math.Inf(1)
	}
	if n, err := strconv.ParseFloat(f[0], 64); err == nil && n > 0 {
		return n
	}
	return math.Inf(1)
}

// words returns the words of a file. It returns none if the file cannot be read.
func words(root fs.FS, dir, name string) []string {
	text, _ := fs.ReadFile(root, path.Join(dir, name))
	return strings.Fields(string(text))
}
