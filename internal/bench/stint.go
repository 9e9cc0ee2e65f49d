package bench

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// A stint is the time that something took, and the part of it for which its
// threads had to wait for their cores because other programs were on them.
type stint struct {
	took time.Duration
	lost float64
}

// A sample is a figure and how much its taking was disturbed.
type sample struct {
	value float64
	lost  float64
}

// timed runs f.
func timed(f func()) stint {
	before := schedule()
	start := time.Now()
	f()
	took := time.Since(start)
	return stint{took, lost(before, schedule(), took)}
}

func (s stint) nanoseconds(ops int) sample {
	return sample{float64(s.took.Nanoseconds()) / float64(ops), s.lost}
}

func (s stint) millions(ops int) sample {
	return sample{float64(ops) / float64(s.took.Nanoseconds()) * 1e3, s.lost}
}

func (s stint) megabytes(ops, size int) sample {
	return sample{float64(ops) * float64(size) / float64(s.took.Nanoseconds()) * 1e3, s.lost}
}

// slice is how long a thread has been on a core and how long it has waited for
// one, in nanoseconds.
type slice struct{ ran, waited uint64 }

// schedule returns the times of this process's threads, by their ids; nothing
// where the kernel does not tell.
func schedule() map[string]slice {
	const tasks = "/proc/self/task"
	dir, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer dir.Close()
	ids, _ := dir.Readdirnames(-1)
	m := make(map[string]slice, len(ids))
	for _, id := range ids {
		text, err := os.ReadFile(tasks + "/" + id + "/schedstat")
		if err != nil {
			continue // it has ended
		}
		if f := strings.Fields(string(text)); len(f) >= 2 {
			ran, _ := strconv.ParseUint(f[0], 10, 64)
			waited, _ := strconv.ParseUint(f[1], 10, 64)
			m[id] = slice{ran, waited}
		}
	}
	return m
}

// lost returns the largest part of the time took for which a thread waited
// that would have run all the time. Threads of the runtime, which mostly sleep
// and then wait behind the measured ones, do not count.
func lost(before, after map[string]slice, took time.Duration) (part float64) {
	for id, a := range after {
		b := before[id]
		ran, waited := float64(a.ran-b.ran), float64(a.waited-b.waited)
		if total := float64(took); ran+waited > total/2 && ran > total/10 {
			part = max(part, waited/total)
		}
	}
	return part
}
