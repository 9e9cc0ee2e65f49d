package verdict

import (
	"fmt"
	"time"

	"github.com/nicless/nicless/internal/schedstat"
)

// A Load adds up over a whole run how long the threads of some processes ran, and how long they were ready to
// run and had no core. Processes may come and go; of one that has ended, what it had since the last look is
// missing.
type Load struct {
	Ran    time.Duration `json:"ran_ns"`
	Waited time.Duration `json:"waited_ns"`

	last map[int]schedstat.Threads
}

// Look adds what the processes had since the last look.
func (l *Load) Look(pids []int) {
	now := make(map[int]schedstat.Threads)
	for _, pid := range pids {
		threads, err := schedstat.Read(pid)
		if err != nil {
			continue
		}
		now[pid] = threads
		d := threads.Since(l.last[pid]).Sum()
		l.Ran += d.Ran
		l.Waited += d.Waited
	}
	l.last = now
}

// Share returns the part of the time in which threads wanted a core that they had one.
func (l *Load) Share() float64 {
	if l.Ran+l.Waited == 0 {
		return 1
	}
	return float64(l.Ran) / float64(l.Ran+l.Waited)
}

// Check returns a fault of kind Undecided if the processes had less than LeastShare of their cores.
func (l *Load) Check(who string) *Fault {
	if l.Share() >= LeastShare {
		return nil
	}
	f := New(Undecided, fmt.Sprintf("a core in at least %.0f%% of the time in which its threads are ready to run", 100*LeastShare),
		"a core in %.1f%%: its threads ran for %s and waited for %s", 100*l.Share(), ms(l.Ran), ms(l.Waited))
	f.Who = who
	return f
}
