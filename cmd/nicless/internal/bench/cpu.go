//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"runtime"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"
)

// AllowedCPUs returns the cores that this process may run on, in order.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("bench: read the allowed cores: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// pinForGood locks the calling goroutine to its thread and pins the thread to one core. If cpu
// is negative it does not pin the thread. The thread ends with the goroutine, which must not
// unlock it.
func pinForGood(cpu int) error {
	runtime.LockOSThread()
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bench: core %d: %w", cpu, err)
	}
	return nil
}

// A Machine describes where figures were measured.
type Machine struct {
	CPU    string `json:"cpu"`
	CPUs   []int  `json:"cpus"` // cores that the process may run on
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() (m Machine, err error) {
	if m.CPUs, err = AllowedCPUs(); err != nil {
		return m, err
	}
	m.CPU = cpuid.CPU.BrandName
	if m.CPU == "" {
		m.CPU = runtime.GOARCH
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return m, fmt.Errorf("bench: uname: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	m.Go = runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	return m, nil
}

// String returns the description in one line.
func (m Machine) String() string {
	noun := "cores"
	if len(m.CPUs) == 1 {
		noun = "core"
	}
	return fmt.Sprintf("%s, %d %s, %s, %s", m.CPU, len(m.CPUs), noun, m.Kernel, m.Go)
}
