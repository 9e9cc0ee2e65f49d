//go:build linux && (amd64 || arm64)

// Package usage queries the kernel about a thread: how long it ran, how long it waited for a core,
// its page faults and its waits. From this a Meter finds out whether the thread was delayed by
// memory or by other threads that used its core (docs/design/0019-stalls.md).
//
// A sample is an answer of the kernel. Samples are taken now and then, not at each step, and
// once more when something took too long. A full sample also includes how long the thread has
// waited for a core. This takes a microsecond or two, so full samples are less frequent. Times
// are readings of the device clock, in cycles, unless they are of type time.Duration.
package usage

import (
	"fmt"
	"os"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// A Meter holds the last samples of one thread. The zero value holds no samples, and does not
// know how long the thread waits for a core. The methods are called on the thread that is
// measured.
type Meter struct {
	last      unix.Rusage // the last sample
	excluded  uint64      // cycles since the beginning in which the thread did not work
	schedstat *os.File    // the thread's file in /proc; nil: its waits for a core are not known
	text      [96]byte    // what was read from schedstat
	full      struct {    // the last full sample
		at, excluded uint64
		ran, waited  time.Duration // how long the thread ran, and waited for a core
	}
}

const (
	// fullTime is the time between two full samples.
	fullTime = 5 * time.Millisecond

	// kernelTime is how long the kernel may work for the thread before this work counts as a
	// delay. Examples of such work are clearing large pages and reclaiming pages. The kernel
	// counts this time in ticks, so a bound of about one tick would be meaningless.
	kernelTime = 10 * time.Millisecond
)

// A Delay is what is known about a time in which memory may have delayed the thread.
type Delay struct {
	Took        time.Duration // for how long memory delayed the thread
	faults      int64         // number of page faults
	majors      int64         // number of page faults whose page had to be fetched
	waits       int64         // number of voluntary waits in the kernel
	preemptions int64
}

// String returns what the kernel has counted during the delay.
func (d Delay) String() string {
	return fmt.Sprintf("page faults %d (%d of them from a disk), waits in the kernel %d", d.faults, d.majors, d.waits)
}

// Attrs returns these numbers, and how long the delay took, for a line in the log.
func (d Delay) Attrs() []any {
	return []any{"for", d.Took.Round(time.Microsecond), "faults", d.faults, "majors", d.majors, "waits",
		d.waits}
}

// Begin begins to measure the calling thread, with a full sample.
func (m *Meter) Begin(now uint64) {
	m.schedstat, _ = os.Open("/proc/thread-self/schedstat")
	m.Sample(now, true)
}

// End closes what Begin has opened.
func (m *Meter) End() {
	if m.schedstat != nil {
		_ = m.schedstat.Close()
		m.schedstat = nil
	}
}

// Sample takes a sample. The sample is full if full is true, or if the last full sample is
// older than fullTime.
func (m *Meter) Sample(now uint64, full bool) {
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &m.last)
	if full || now-m.full.at > clock.Cycles(fullTime) {
		m.full.at, m.full.excluded = now, m.excluded
		m.full.ran, m.full.waited = ran(&m.last), m.waited()
	}
}

// Exclude adds cycles in which the thread did not work, because it slept, served requests or
// waited for other shards. It returns the number of such cycles since the last full sample.
func (m *Meter) Exclude(cycles uint64) (sinceFull uint64) {
	m.excluded += cycles
	return m.excluded - m.full.excluded
}

// Check reports whether memory delayed the thread for more than bound between the times since
// and now. The time now must be only a moment ago. There must have been a page fault. In
// addition, either the thread must have waited in the kernel, or the kernel must have worked
// for the thread for longer than kernelTime. Time in which the thread waited for a core does
// not count.
func (m *Meter) Check(since, now uint64, bound time.Duration) (d Delay, ok bool) {
	was, full := m.last, m.full
	end := clock.Now()
	m.Sample(end, true)
	took := clock.Duration(now - since)
	kernel := time.Duration(m.last.Stime.Nano() - was.Stime.Nano())
	worked := clock.Duration(end-full.at) - clock.Duration(m.excluded-full.excluded)
	blocked := worked - (m.full.ran - full.ran) - (m.full.waited - full.waited)
	d = Delay{
		Took:        min(took, blocked),
		faults:      m.last.Minflt - was.Minflt + m.last.Majflt - was.Majflt,
		majors:      m.last.Majflt - was.Majflt,
		waits:       m.last.Nvcsw - was.Nvcsw,
		preemptions: m.last.Nivcsw - was.Nivcsw,
	}
	if kernel > kernelTime && kernel > blocked {
		d.Took = min(took, kernel)
	} else if d.waits == 0 || m.schedstat == nil && d.preemptions > 0 {
		return d, false
	}
	return d, d.faults > 0 && d.Took > bound
}

// Expire makes the next sample a full one. For tests.
func (m *Meter) Expire() { m.full.at = 0 }

// ran returns how long a thread has run.
func ran(u *unix.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }

// waited returns how long the thread has waited for a core, or 0 if that is not known.
func (m *Meter) waited() time.Duration {
	if m.schedstat == nil {
		return 0
	}
	// ReadAt would read again, up to the end of the file.
	n, err := unix.Pread(int(m.schedstat.Fd()), m.text[:], 0)
	if err != nil {
		return 0
	}
	return parseWaited(m.text[:n])
}

// parseWaited returns the second of the three numbers in a schedstat: the time in nanoseconds
// that the thread waited for a core. (The first number is the time that it ran, the third is
// the number of its time slices.) parseWaited does not allocate.
func parseWaited(text []byte) time.Duration {
	field, sum := 0, time.Duration(0)
	for _, b := range text {
		switch {
		case b == ' ' || b == '\n':
			field++
			if field == 2 {
				return sum
			}
			sum = 0
		case b >= '0' && b <= '9':
			sum = 10*sum + time.Duration(b-'0')
		}
	}
	return 0
}
