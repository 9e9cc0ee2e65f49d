// Package schedstat separates the time for which a thread ran from the time for which it was ready to
// run and had no core. So a program that waited too long can distinguish a peer that was slow from a
// machine that was busy.
//
// Linux counts both for every thread, in nanoseconds, in the first two fields of
// /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst). Every user may read
// them. On other systems, and on kernels that do not count, Read returns an error.
//
// All functions are safe for concurrent use.
package schedstat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// ErrNone says that the kernel does not count how long threads wait for a core.
var ErrNone = errors.New("the kernel does not count how long threads wait for a core")

// Times is what a thread has had since its start.
type Times struct {
	Ran    time.Duration // time on a core
	Waited time.Duration // time in which the thread was ready to run and had no core
}

// Threads has the times of a process's threads by their ids.
type Threads map[int]Times

// Read returns the times of all threads of a process that exist at present. It fails if there is
// no such process, or with ErrNone.
func Read(pid int) (Threads, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "task")
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("schedstat: process %d: %w", pid, err)
	}
	threads, ran := make(Threads, len(list)), false
	for _, entry := range list {
		t, err := Thread(filepath.Join(dir, entry.Name()))
		if err != nil {
			continue // the thread has ended, or there is no such file
		}
		tid, _ := strconv.Atoi(entry.Name())
		threads[tid] = t
		ran = ran || t.Ran != 0
	}
	if !ran {
		return nil, ErrNone
	}
	return threads, nil
}

// Thread returns the times of the thread with this directory, /proc/PID/task/TID.
func Thread(dir string) (t Times, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
	if err == nil {
		_, err = fmt.Fscan(bytes.NewReader(text), (*int64)(&t.Ran), (*int64)(&t.Waited))
	}
	return t, err
}

// Since returns the times of threads since the reading before. Those of a thread that has started
// since then count from its start.
func (t Threads) Since(before Threads) Threads {
	d := make(Threads, len(t))
	for tid, now := range t {
		d[tid] = Times{now.Ran - before[tid].Ran, now.Waited - before[tid].Waited}
	}
	return d
}

// Sum returns the times of all threads together.
func (t Threads) Sum() (sum Times) {
	for _, one := range t {
		sum.Ran += one.Ran
		sum.Waited += one.Waited
	}
	return sum
}

// Longest returns the n longest times that threads waited for a core, added together. That is the
// most that the scheduler can have delayed a job that n threads do one after another.
func (t Threads) Longest(n int) (sum time.Duration) {
	var all []time.Duration
	for _, one := range t {
		all = append(all, one.Waited)
	}
	slices.Sort(all)
	for _, waited := range all[max(0, len(all)-n):] {
		sum += waited
	}
	return sum
}

// Steal returns how long the hypervisor has given this machine's cores to others since the machine
// started, as the sum over all cores in steps of 10 ms; 0 if the kernel does not say. It is the
// eighth number in the first line of /proc/stat.
func Steal() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 {
		return 0
	}
	ticks, _ := strconv.ParseInt(string(fields[8]), 10, 64)
	return time.Duration(ticks) * (time.Second / 100)
}
