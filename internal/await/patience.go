package await

import (
	"fmt"
	"os"
	"time"

	"github.com/nicless/nicless/internal/schedstat"
)

const (
	// period is the time until the first reading of the delays of threads. Each later period is twice as
	// long as the one before, up to longestPeriod: a reading goes through all of /proc, and when a process
	// ends, the kernel goes through all that was read of the process. With a reading each 250 ms, tests
	// that run programs spent a third of their cores on readings.
	period        = 250 * time.Millisecond
	longestPeriod = 8 * period

	// leastShare is the part of the time that counts however long threads have waited for a
	// core. So on the busiest machine a wait that never succeeds takes ten times the patience:
	// half of the ten minutes that go test gives to a package.
	leastShare = 0.1
)

// patience counts the time in which awaited work could go on.
type patience struct {
	limit   time.Duration
	begun   time.Time                 // begin of the wait, or the last renew
	looked  time.Time                 // the last reading
	next    time.Duration             // time from looked to the next reading
	most    time.Duration             // the longest that next may become
	before  map[int]schedstat.Threads // threads of each process at the last reading
	stolen  time.Duration             // schedstat.Steal at the last reading
	counted time.Duration             // time since begun in which the work could go on
}

func begin(limit time.Duration) *patience {
	now := time.Now()
	return &patience{limit: limit, begun: now, looked: now, next: period, most: longestPeriod}
}

// renew begins anew, because something has moved.
func (p *patience) renew() { p.begun, p.counted = p.looked, 0 }

// look reads the delays of threads, and counts the time since the last reading. If it is too early for
// a reading, look does nothing and returns false.
func (p *patience) look() bool {
	elapsed := time.Since(p.looked)
	if elapsed < p.next {
		return false
	}
	p.looked = p.looked.Add(elapsed)
	now, stolen := readFamily(), schedstat.Steal()
	// Times before the first reading are not known. That period counts as a whole.
	var delayed time.Duration
	if p.before != nil {
		delayed = stolen - p.stolen
		for pid, threads := range now {
			delayed += threads.Since(p.before[pid]).Sum().Waited
		}
	}
	p.before, p.stolen = now, stolen
	p.counted += count(elapsed, delayed, p.next)
	p.next = min(2*p.next, p.most)
	return true
}

// count returns how much of elapsed, the time since the last reading, counts if the threads together
// were delayed for the time delayed. due is the time at which the reading should have come. If elapsed
// is more than twice as long, this process was itself held up.
func count(elapsed, delayed, due time.Duration) time.Duration {
	elapsed = min(elapsed, 2*due)
	return max(elapsed-delayed, time.Duration(leastShare*float64(elapsed)))
}

// over reports whether the wait has taken as long as it may.
func (p *patience) over() bool { return p.counted >= p.limit }

// String says how long the wait has taken, and how much of that counts.
func (p *patience) String() string {
	took := time.Since(p.begun).Round(period)
	return fmt.Sprintf("waited %v, of which the scheduler explains %v", took, max(0, took-p.counted).Round(period))
}

// readFamily returns the times of the threads of this process and its descendants. It leaves out
// what cannot be read.
func readFamily() map[int]schedstat.Threads {
	all := make(map[int]schedstat.Threads)
	for _, pid := range schedstat.Family(os.Getpid()) {
		if threads, err := schedstat.Read(pid); err == nil {
			all[pid] = threads
		}
	}
	return all
}
