package verdict

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/schedstat"
)

// A blockage counts for how long threads were in uninterruptible sleep. The kernel does not count that,
// so threads are sampled. A thread that was in this state at two samples, and has not run in between, has
// been in it for the whole time: to leave it, a thread must run. So the count is a lower bound, which at each
// end of a sleep misses less than the time between two samples.
type blockage struct {
	files sync.Mutex // held while a file is open
	mu    sync.Mutex
	last  map[int]sample // the last sample of each thread
	sum   map[int]time.Duration
	where map[string]time.Duration // time at which a thread was last seen in each function of the kernel
}

// A sample is a thread in uninterruptible sleep.
type sample struct {
	at  time.Duration
	ran time.Duration
}

func newBlockage() *blockage {
	return &blockage{last: make(map[int]sample), sum: make(map[int]time.Duration),
		where: make(map[string]time.Duration)}
}

// look samples the threads of processes.
func (b *blockage) look(pids []int) {
	for _, pid := range pids {
		b.files.Lock()
		list, _ := os.ReadDir(taskDir(pid))
		b.files.Unlock()
		for _, entry := range list {
			tid, _ := strconv.Atoi(entry.Name())
			b.thread(tid, filepath.Join(taskDir(pid), entry.Name()))
		}
	}
}

func taskDir(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/task" }

func (b *blockage) thread(tid int, dir string) {
	before := Now()
	sleeps, ran, where := b.read(dir)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !sleeps {
		delete(b.last, tid)
		return
	}
	if s, ok := b.last[tid]; ok && s.ran == ran {
		b.sum[tid] += before - s.at
	}
	b.last[tid] = sample{at: Now(), ran: ran}
	b.where[where] = Now()
}

// read reports whether a thread is in uninterruptible sleep, for how long it has run, and in which function
// of the kernel it sleeps.
func (b *blockage) read(dir string) (sleeps bool, ran time.Duration, where string) {
	b.files.Lock()
	defer b.files.Unlock()
	stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
	times, err := schedstat.Thread(dir)
	if state(stat) != 'D' || err != nil {
		return false, 0, ""
	}
	// 0: it runs again
	if text, err := os.ReadFile(filepath.Join(dir, "wchan")); err == nil && len(text) > 1 {
		return true, times.Ran, string(text)
	}
	return true, times.Ran, "a function that this user may not know"
}

// state returns the third field of a text from /proc/PID/task/TID/stat. The second is a name in
// parentheses, which may contain anything.
func state(stat []byte) byte {
	at := bytes.LastIndex(stat, []byte(") "))
	if at < 0 || at+2 >= len(stat) {
		return 0
	}
	return stat[at+2]
}

// sums returns for how long each thread has been blocked until now.
func (b *blockage) sums() map[int]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.sum)
}

// since returns in which functions of the kernel threads were seen since a time.
func (b *blockage) since(t time.Duration) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for name, at := range b.where {
		if at >= t {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// BlockedIn returns the functions of the kernel in which threads of a process are in uninterruptible sleep
// at present.
func BlockedIn(pid int) string {
	b := newBlockage()
	b.look([]int{pid})
	return b.since(0)
}
