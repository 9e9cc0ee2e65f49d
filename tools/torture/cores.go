//go:build linux && (amd64 || arm64)

package torture

import "golang.org/x/sys/unix"

// anyCore returns a core that this process may run on.
func anyCore(pick func(int) int) int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil || set.Count() == 0 {
		return 0
	}
	n := pick(set.Count())
	for core := 0; ; core++ {
		if set.IsSet(core) {
			if n == 0 {
				return core
			}
			n--
		}
	}
}

// pin makes the calling thread run on one core only.
func pin(core int) {
	var set unix.CPUSet
	set.Set(core)
	_ = unix.SchedSetaffinity(0, &set)
}
