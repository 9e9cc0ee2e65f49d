package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrCPUs reports cores in Config.CPUs, Cores or DMACores that a thread cannot be put
// on.
var ErrCPUs = errors.New("engine")

// pin puts the calling thread on the cores that the configuration names, and off
// those of workers, until unpin: the thread is not ours for ever.
func (sh *shard) pin() (unpin func(), err error) {
	cpus := sh.cfg.CPUs
	if sh.cfg.Cores != nil {
		cpus = sh.cfg.Cores[sh.number : sh.number+1]
	}
	if cpus == nil && sh.cfg.DMACores == nil || sh.Engine.hooks.unpinned {
		return func() {}, nil
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("engine: which cores are allowed: %w", err)
	}
	set, err := sh.cores(allowed, cpus)
	if err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("engine: cores %v: %w", cpus, err)
	}
	return func() { _ = unix.SchedSetaffinity(0, &allowed) }, nil
}

// cores returns where the engine's thread may run, or why it and its workers cannot
// all be where they are to be.
func (sh *shard) cores(allowed unix.CPUSet, cpus []int) (set unix.CPUSet, err error) {
	var workers unix.CPUSet
	for _, cpu := range sh.cfg.DMACores {
		switch {
		case cpu < 0 || !allowed.IsSet(cpu):
			return set, fmt.Errorf("%w: DMA core %d %s; allowed: %s", ErrCPUs, cpu, whyNotOn(os.DirFS("/"), cpu), coreList(&allowed))
		case workers.IsSet(cpu):
			return set, fmt.Errorf("%w: DMA core %d is named twice", ErrCPUs, cpu)
		}
		workers.Set(cpu)
	}
	if cpus == nil {
		set = allowed
		for _, cpu := range sh.cfg.DMACores {
			set.Clear(cpu)
		}
		if set.Count() == 0 {
			return set, fmt.Errorf("%w: %d DMA cores of the %d that are allowed to this process leave none to the engine itself",
				ErrCPUs, len(sh.cfg.DMACores), allowed.Count())
		}
	}
	for _, cpu := range cpus {
		switch {
		case cpu < 0 || !allowed.IsSet(cpu):
			return set, fmt.Errorf("%w: core %d %s; allowed: %s", ErrCPUs, cpu, whyNotOn(os.DirFS("/"), cpu), coreList(&allowed))
		case workers.IsSet(cpu):
			return set, fmt.Errorf("%w: core %d is to be the engine's own and a DMA core", ErrCPUs, cpu)
		}
		set.Set(cpu)
	}
	return set, nil
}

// whyNotOn says why a core is not allowed.
func whyNotOn(root fs.FS, cpu int) string {
	text, err := fs.ReadFile(root, "sys/devices/system/cpu/online")
	if err != nil {
		return "does not exist or is not allowed to this process"
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		first, err1 := strconv.Atoi(lo)
		last, err2 := strconv.Atoi(hi)
		if err1 == nil && err2 == nil && first <= cpu && cpu <= last {
			return "is not allowed to this process (a cpuset, or taskset)"
		}
	}
	return "does not exist or is off"
}

// coreList returns cores as the kernel writes them: 0-3,8.
func coreList(set *unix.CPUSet) string {
	var parts []string
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if !set.IsSet(cpu) {
			continue
		}
		first := cpu
		for ; set.IsSet(cpu); cpu++ {
			left--
		}
		if last := cpu - 1; last > first {
			parts = append(parts, fmt.Sprintf("%d-%d", first, last))
		} else {
			parts = append(parts, strconv.Itoa(first))
		}
	}
	return strings.Join(parts, ",")
}
