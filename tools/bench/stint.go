//go:build linux && (amd64 || arm64)

package bench

import (
	"strconv"
	"time"

	"github.com/nicless/nicless/tools/internal/cores"
	"golang.org/x/sys/unix"
)

// A stint is how long a measurement took, and the part of that time for which its threads had
// to wait for their cores because other programs used them.
type stint struct {
	took time.Duration
	lost float64
}

// timed runs f and returns its stint. While f runs, it keeps the calling thread busy, and one
// thread of each of the processes whose ids are in others. timed checks the threads of all these
// processes for waits.
func timed(f func(), others ...int) stint {
	self := strconv.Itoa(unix.Gettid())
	before := schedule(others...)
	start := time.Now()
	f()
	took := time.Since(start)
	after := schedule(others...)
	part := max(lost(before, after, took), absent(before, after, took, self))
	for _, pid := range others {
		part = max(part, absent(before, after, took, threadsOf(pid)...))
	}
	return stint{took, part}
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

// schedule returns the times of the threads of this process and of the processes whose ids are
// in others, by the threads' ids. The map is empty if the kernel has no schedstat.
func schedule(others ...int) map[string]cores.Times {
	m := make(map[string]cores.Times)
	addThreads(m, "self")
	for _, pid := range others {
		addThreads(m, strconv.Itoa(pid))
	}
	return m
}

// threadsOf returns the ids of a process's threads.
func threadsOf(pid int) (ids []string) { return cores.Threads(strconv.Itoa(pid)) }

func addThreads(m map[string]cores.Times, process string) {
	for _, id := range cores.Threads(process) {
		if t, ok := cores.TimesOf(process, id); ok {
			m[id] = t
		}
	}
}

// lost returns for which part of a measurement a busy thread waited for a core. The measurement
// lasted for the duration took. If several threads were busy, lost returns the part of the
// thread that waited longest. Threads of the Go runtime do not count:
// they mostly sleep, and when they wake they wait for the measured threads.
func lost(before, after map[string]cores.Times, took time.Duration) (part float64) {
	for id, a := range after {
		b := before[id]
		ran, waited := float64(a.Ran-b.Ran), float64(a.Waited-b.Waited)
		if total := float64(took); ran+waited > total/2 && ran > total/10 {
			part = max(part, waited/total)
		}
	}
	return part
}

// absent returns for which part of a measurement the busiest of the threads did not run, although
// it should have been busy all the time. The measurement lasted for the duration took. In that
// part of it the thread was stopped, or slept because its partner did not run.
func absent(before, after map[string]cores.Times, took time.Duration, threads ...string) float64 {
	most, known := 0.0, false
	for _, id := range threads {
		if a, ok := after[id]; ok {
			most, known = max(most, float64(a.Ran-before[id].Ran)), true
		}
	}
	if !known {
		return 0 // the kernel has no schedstat
	}
	return max(0, 1-(most+float64(stale))/float64(took))
}

// stale is how old the kernel's times of a running thread can be.
const stale = 10 * time.Millisecond
