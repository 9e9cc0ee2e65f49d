//go:build linux && (amd64 || arm64)

package torture

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// delays has, for each thread, how long it was ready to run but had no core, from the thread's
// start until the reading. That is the part of a wait that the scheduler causes. The kernel
// counts it in the second field of /proc/PID/task/TID/schedstat.
type delays struct {
	at     time.Time     // time of the reading
	pid    int           // process id of the engine
	engine threadDelays  // delays of the engine's threads
	own    threadDelays  // delays of this process's threads
	steal  time.Duration // time for which the hypervisor gave this machine's cores to others
}

type threadDelays map[string]time.Duration

// takeDelays reads the present delays. It fails if the kernel does not count them or the
// engine is gone.
func takeDelays(pid int) (*delays, error) {
	d := &delays{pid: pid}
	var err, err2 error
	d.engine, err = readDelays("/proc/" + strconv.Itoa(pid))
	d.own, err2 = readDelays("/proc/self")
	d.steal = readSteal()
	d.at = time.Now()
	return d, errors.Join(err, err2)
}

var errNoDelays = errors.New("the kernel does not count how long threads wait for a core")

func readDelays(process string) (threadDelays, error) {
	list, err := os.ReadDir(filepath.Join(process, "task"))
	if err != nil {
		return nil, err
	}
	d := make(threadDelays, len(list))
	ran := false
	for _, t := range list {
		b, err := os.ReadFile(filepath.Join(process, "task", t.Name(), "schedstat"))
		if err != nil {
			continue // the thread has ended, or there is no such file
		}
		f := strings.Fields(string(b))
		if len(f) < 2 {
			continue
		}
		ns, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		ran = ran || f[0] != "0"
		d[t.Name()] = time.Duration(ns)
	}
	if !ran {
		return nil, errNoDelays
	}
	return d, nil
}

// since returns the sum of the n longest delays of threads since the reading before. The delay
// of a thread that has started since then counts from its start.
func (d threadDelays) since(before threadDelays, n int) (sum time.Duration) {
	var all []time.Duration
	for tid, delay := range d {
		all = append(all, delay-before[tid])
	}
	slices.Sort(all)
	for _, delay := range all[max(0, len(all)-n):] {
		sum += delay
	}
	return sum
}

// blockedIn returns the kernel functions in which threads of a process are in uninterruptible
// sleep at present.
func blockedIn(pid int) (list []string) {
	task := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, _ := os.ReadDir(task)
	for _, t := range threads {
		stat, _ := os.ReadFile(filepath.Join(task, t.Name(), "stat"))
		if _, state, ok := bytes.Cut(stat, []byte(") ")); !ok || state[0] != 'D' {
			continue
		}
		where, err := os.ReadFile(filepath.Join(task, t.Name(), "wchan"))
		if err != nil || len(where) < 2 { // 0: the thread runs again, or this user may not read it
			where = []byte("the kernel")
		}
		list = append(list, string(where))
	}
	return list
}

// readSteal returns the time for which the hypervisor gave this machine's cores to others. It
// is the eighth number of the first line of /proc/stat, in hundredths of a second.
func readSteal() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 9 {
		return 0
	}
	ticks, _ := strconv.ParseInt(string(f[8]), 10, 64)
	return time.Duration(ticks) * time.Second / 100
}
