//go:build linux

package steady

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// leastRoom is what test binaries and what tests write need of the disk: each binary has 5 to 20 MiB,
// and those of all suites are some 150.
const leastRoom = 3 << 10 // MiB

// DefaultLoad returns two busy loops for each core, so that each test gets a third of a core; memory
// of more than the caches of most processors, so that it takes their lines away; and a file that keeps
// the disk's queue full. Memory and file have at most an eighth of what is free.
func DefaultLoad() Load {
	l := Load{Busy: 2 * runtime.NumCPU(), Memory: 512, Disk: 256}
	if free, err := freeMemory(); err == nil {
		l.Memory = min(l.Memory, free/8)
	}
	if free, err := freeDisk(os.TempDir()); err == nil {
		l.Disk = min(l.Disk, free/8)
	}
	return l
}

// Check returns an error if the machine has no room for the tests and the load.
func (l Load) Check() error {
	free, err := freeDisk(os.TempDir())
	if err != nil {
		return fmt.Errorf("%s: %w", os.TempDir(), err)
	}
	if free < leastRoom+2*l.Disk {
		return fmt.Errorf("the disk of %s is full: %d MiB are free; test binaries need %d, and the load %d (TMPDIR names another directory)", os.TempDir(), free, leastRoom, 2*l.Disk)
	}
	if free, err = freeMemory(); err == nil && l.Memory > free/2 {
		return fmt.Errorf("a load of %d MiB of memory is more than half of the %d MiB that are available", l.Memory, free)
	}
	return nil
}

// Notes returns what about this machine makes tests fail or skip without any load.
func Notes() (notes []string) {
	if free, err := freeDisk("/dev/shm"); err != nil {
		notes = append(notes, fmt.Sprintf("no /dev/shm here (%v): tests that map files in it skip, or say so", err))
	} else if free < 64 {
		notes = append(notes, fmt.Sprintf("/dev/shm has %d MiB left: tests that map files in it fail", free))
	}
	if runtime.NumCPU() == 1 {
		notes = append(notes, "this machine has one core: no two threads ever run at the same time")
	}
	return notes
}

func freeDisk(dir string) (mibs int, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int(s.Bavail * uint64(s.Bsize) / mib), nil
}

func freeMemory() (mibs int, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte("MemAvailable:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
	}
	kib, err := strconv.Atoi(string(fields[0]))
	return kib >> 10, err
}
