//go:build linux && (amd64 || arm64)

package cores

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Allowed returns the cores that this process may run on, in order.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the allowed cores: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// PinForGood locks the calling goroutine to its thread and pins the thread to one core. If cpu
// is negative it does not pin the thread. The thread ends with the goroutine, which must not
// unlock it.
func PinForGood(cpu int) error {
	runtime.LockOSThread()
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("core %d: %w", cpu, err)
	}
	return nil
}

// RoamForGood is PinForGood for several cores, between which the kernel may move the thread.
func RoamForGood(cpus ...int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("cores %v: %w", cpus, err)
	}
	return nil
}

// Kernel returns the name and the release of the kernel.
func Kernel() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]), nil
}

// Thread returns the id of the calling thread.
func Thread() int { return unix.Gettid() }
