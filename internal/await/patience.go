package await

import (
	"fmt"
	"os"
	"time"

	"github.com/nicless/nicless/internal/schedstat"
)

const (
	// period is the time until the first reading of the delays of threads. Then each takes twice as long, up
	// to longestPeriod: a reading goes through all of /proc, and when a process ends, the kernel goes through
	// all that was read of it. With a reading each 250 ms, tests that run programs spent a third of their
	// cores on that.
	period        = 250 * time.Millisecond
	longestPeriod = 8 * period

	// leastShare is the part of the time that counts however long threads have waited for a
	// core. So on the busiest machine a wait for what never comes takes ten times the patience,
	// which is half of the ten minutes that go test gives to a package.
	leastShare = 0.1
)

// patience counts the time in which awaited work could go on.
type patience struct {
	limit   time.Duration
	begun   time.Time
	looked  time.Time
	next    time.Duration             // time from looked to the next reading
	most    time.Duration             // longest next
	before  map[int]schedstat.Threads // threads of each process at the last reading
	stolen  time.Duration
	counted time.Duration
}

func begin(limit time.Duration) *patience {
	now := time.Now()
	return &patience{limit: limit, begun: now, looked: now, next: period, most: longestPeriod}
}

// renew begins anew, because something has moved.
func (p *patience) renew() { p.begun, p.counted = p.looked, 0 }

// look counts the time since the last look. It returns false, and has done nothing, if it is too early.
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

// count returns how much of the time since the last look counts if the threads together were
// delayed this long. It should have been the time due; a look that came later by more than that was itself
// held up.
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
