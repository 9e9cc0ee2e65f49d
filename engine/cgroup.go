package engine

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// allowance returns how many cores' time the process may use: the least quota of
// its control group and of those around it, infinite if there is none.
func allowance(root fs.FS) float64 { return leastInGroups(root, "cpu", quota) }

// memoryLimit returns how many bytes the process may have in memory: the least limit of
// its control group and of those around it, infinite if there is none.
func memoryLimit(root fs.FS) float64 { return leastInGroups(root, "memory", memoryMax) }

// leastInGroups returns the least of what the groups around this process say.
func leastInGroups(root fs.FS, controller string, of func(root fs.FS, dir string) float64) float64 {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return math.Inf(1)
	}
	least := math.Inf(1)
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, mount := range groupMounts(f[1], controller) {
			least = min(least, leastUpwards(root, mount, f[2], of))
		}
	}
	return least
}

// groupMounts returns where the groups of some controllers are, if the one that is asked
// for is among them; no controllers are version 2.
func groupMounts(controllers, controller string) []string {
	const base = "sys/fs/cgroup"
	switch {
	case controllers == "":
		return []string{base, base + "/unified"}
	case strings.Contains(","+controllers+",", ","+controller+","):
		return []string{base + "/" + controller, base + "/" + controllers}
	}
	return nil
}

// leastUpwards goes from a group up to the mount. In a container the group may be
// named as the host sees it; what is there then is the mount itself.
func leastUpwards(root fs.FS, mount, group string, of func(root fs.FS, dir string) float64) float64 {
	least := math.Inf(1)
	for dir := path.Join(mount, path.Clean("/"+group)); ; dir = path.Dir(dir) {
		least = min(least, of(root, dir))
		if len(dir) <= len(mount) {
			return least
		}
	}
}

// quota is that of one group: cpu.max, or in version 1 two files.
func quota(root fs.FS, dir string) float64 {
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

// memoryMax is the limit of one group: memory.max, or in version 1 another file.
func memoryMax(root fs.FS, dir string) float64 {
	f := append(words(root, dir, "memory.max"), words(root, dir, "memory.limit_in_bytes")...) // "1073741824", or "max"
	if len(f) != 1 {
		return math.Inf(1)
	}
	if n, err := strconv.ParseFloat(f[0], 64); err == nil && n > 0 {
		return n
	}
	return math.Inf(1)
}

func words(root fs.FS, dir, name string) []string {
	text, _ := fs.ReadFile(root, path.Join(dir, name))
	return strings.Fields(string(text))
}
