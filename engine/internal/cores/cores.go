//go:build linux && (amd64 || arm64)

// Package cores places the engine's threads on cores, and finds out whether other threads want the
// same cores.
//
// Files, in reading order:
//
//	cores.go       the cores that a thread may run on
//	slice.go       how long a thread runs at a time
//	realtime.go    what an engine with a real-time policy leaves to its other threads
//	contention.go  whether other threads want the engine's cores, and what the engine does then
//
// A core is what Linux calls a CPU, and is named by its number. The cores that are allowed to
// a thread are those of its affinity mask. A cpuset or taskset can restrict the mask.
package cores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnavailable is the error for cores on which a thread cannot be put. Its text is the
// prefix of the engine's errors.
var ErrUnavailable = errors.New("engine")

// Pin puts the calling thread on the cores in own. If own is nil, Pin puts the thread on all
// cores that are allowed, except those of workers. If both are nil, Pin does nothing. The
// goroutine must be locked to the thread. unpin undoes Pin. The error is ErrUnavailable if the
// thread or a worker cannot run on its cores.
func Pin(own, workers []int) (unpin func(), err error) {
	if own == nil && workers == nil {
		return func() {}, nil
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("engine: which cores are allowed: %w", err)
	}
	set, err := choose(allowed, own, workers)
	if err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("engine: cores %v: %w", own, err)
	}
	return func() { _ = unix.SchedSetaffinity(0, &allowed) }, nil
}

// PinWorker puts the calling thread on one core. This cannot be undone.
func PinWorker(core int) error {
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("%w: DMA core %d: %w", ErrUnavailable, core, err)
	}
	return nil
}

// choose returns the cores on which Pin puts the thread.
func choose(allowed unix.CPUSet, own, workers []int) (set unix.CPUSet, err error) {
	var taken unix.CPUSet // the cores of workers
	for _, core := range workers {
		switch {
		case core < 0 || !allowed.IsSet(core):
			return set, fmt.Errorf("%w: DMA core %d %s; allowed: %s", ErrUnavailable, core,
				whyUnavailable(os.DirFS("/"), core), list(&allowed))
		case taken.IsSet(core):
			return set, fmt.Errorf("%w: DMA core %d is named twice", ErrUnavailable, core)
		}
		taken.Set(core)
	}
	if own == nil {
		set = allowed
		for _, core := range workers {
			set.Clear(core)
		}
		if set.Count() == 0 {
			return set, fmt.Errorf("%w: %d DMA cores of the %d that are allowed to this process leave none to the engine itself",
				ErrUnavailable, len(workers), allowed.Count())
		}
	}
	for _, core := range own {
		switch {
		case core < 0 || !allowed.IsSet(core):
			return set, fmt.Errorf("%w: core %d %s; allowed: %s", ErrUnavailable, core,
				whyUnavailable(os.DirFS("/"), core), list(&allowed))
		case taken.IsSet(core):
			return set, fmt.Errorf("%w: core %d is to be the engine's own and a DMA core", ErrUnavailable, core)
		}
		set.Set(core)
	}
	return set, nil
}

// whyUnavailable returns why a core is not allowed.
func whyUnavailable(root fs.FS, core int) string {
	text, err := fs.ReadFile(root, "sys/devices/system/cpu/online")
	if err != nil {
		return "does not exist or is not allowed to this process"
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		if first, last, ok := bounds(part); ok && first <= core && core <= last {
			return "is not allowed to this process (a cpuset, or taskset)"
		}
	}
	return "does not exist or is off"
}

// countOnline returns how many cores the system has, 0 if that is unknown.
func countOnline(root fs.FS) (n int) {
	text, err := fs.ReadFile(root, "sys/devices/system/cpu/online")
	if err != nil {
		return 0
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, ok := bounds(part)
		if !ok {
			return 0
		}
		n += last - first + 1
	}
	return n
}

// bounds returns the first and the last core of a part of a list, such as 0-3 or 8.
func bounds(part string) (first, last int, ok bool) {
	lo, hi, isRange := strings.Cut(part, "-")
	if !isRange {
		hi = lo
	}
	first, err1 := strconv.Atoi(lo)
	last, err2 := strconv.Atoi(hi)
	return first, last, err1 == nil && err2 == nil
}

// list returns the cores of a set in the form that the kernel uses, such as 0-3,8.
func list(set *unix.CPUSet) string {
	var parts []string
	for core, left := 0, set.Count(); left > 0; core++ {
		if !set.IsSet(core) {
			continue
		}
		first := core
		for ; set.IsSet(core); core++ {
			left--
		}
		if last := core - 1; last > first {
			parts = append(parts, fmt.Sprintf("%d-%d", first, last))
		} else {
			parts = append(parts, strconv.Itoa(first))
		}
	}
	return strings.Join(parts, ",")
}
