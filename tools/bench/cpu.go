//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"runtime"

	"github.com/klauspost/cpuid/v2"
	"github.com/nicless/nicless/tools/internal/cores"
)

// AllowedCPUs returns the cores that this process may run on, in order.
func AllowedCPUs() ([]int, error) {
	cpus, err := cores.Allowed()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return cpus, nil
}

// pinForGood is cores.PinForGood.
func pinForGood(cpu int) error {
	if err := cores.PinForGood(cpu); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// roamOn is pinForGood for several cores.
func roamOn(cpus ...int) error {
	if err := cores.RoamForGood(cpus...); err != nil {
		return fmt.Errorf("bench: %w", err)
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
	m.CPUs, err = AllowedCPUs()
	if err != nil {
		return m, err
	}
	m.CPU = cpuid.CPU.BrandName
	if m.CPU == "" {
		m.CPU = runtime.GOARCH
	}
	m.Kernel, err = cores.Kernel()
	if err != nil {
		return m, fmt.Errorf("bench: %w", err)
	}
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
