package accel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pin restricts the calling thread to the cores of the configuration. unpin undoes that. The
// caller must call unpin, because the runtime uses the thread for other goroutines later.
func (c *Config) pin() (unpin func(), err error) {
	unpin = func() {}
	if c.CPUs == nil {
		return unpin, nil
	}
	var set, allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return unpin, fmt.Errorf("accel: which cores are allowed: %w", err)
	}
	for _, cpu := range c.CPUs {
		if cpu < 0 || !allowed.IsSet(cpu) {
			return unpin, fmt.Errorf("accel: core %d does not exist or is not allowed to this process (%d are)", cpu, allowed.Count())
		}
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return unpin, fmt.Errorf("accel: cores %v: %w", c.CPUs, err)
	}
	return func() { _ = unix.SchedSetaffinity(0, &allowed) }, nil
}
