//go:build linux && (amd64 || arm64)

package rack

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTicks is how many units of /proc/PID/stat are a second, on every machine that Linux runs Go on.
const clockTicks = 100

// A Use is what the engines take together while nobody uses them.
type Use struct {
	Cores   float64 // of the processor, while the measurement lasts
	Wakeups float64 // of threads, per engine and second
	Busiest float64 // the same of the thread of each engine that wakes most
	Threads int
	Memory  uint64 // bytes: the share of each process in what it has mapped (PSS)
}

func (u Use) String() string {
	return fmt.Sprintf("%.1f %% of a core, %.0f wakeups of each engine in a second, %.0f of them of one thread, %d threads, %d MiB",
		100*u.Cores, u.Wakeups, u.Busiest, u.Threads, u.Memory>>20)
}

// measure measures for the time d.
func measure(nodes []*node, d time.Duration) (u Use, err error) {
	began := time.Now()
	before := make([]used, len(nodes))
	for i, n := range nodes {
		before[i], err = n.used()
		if err != nil {
			return u, err
		}
	}
	time.Sleep(d)
	rate := 1 / time.Since(began).Seconds()
	for i, n := range nodes {
		now, err := n.used()
		if err != nil {
			return u, err
		}
		u.Cores += rate * (now.seconds - before[i].seconds)
		busiest := 0
		for thread, slept := range now.slept {
			slept -= before[i].slept[thread]
			u.Wakeups += rate * float64(slept) / float64(len(nodes))
			busiest = max(busiest, slept)
		}
		u.Busiest += rate * float64(busiest) / float64(len(nodes))
		u.Threads += len(now.slept)
		kib, err := field(fmt.Sprintf("/proc/%d/smaps_rollup", n.cmd.Process.Pid), "Pss:")
		if err != nil {
			return u, err
		}
		u.Memory += uint64(kib) << 10
	}
	return u, nil
}

// A used is what an engine has used until now.
type used struct {
	seconds float64        // of the processor
	waited  float64        // seconds in which its threads could run, and had no processor
	slept   map[string]int // how often each thread has slept
}

// used returns what the engine has used.
func (e *engine) used() (used, error) {
	u := used{slept: make(map[string]int)}
	dir := fmt.Sprintf("/proc/%d", e.cmd.Process.Pid)
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	u.seconds = float64(user+system) / clockTicks
	tasks, err := os.ReadDir(dir + "/task")
	if err != nil {
		return u, err
	}
	for _, t := range tasks {
		k, err := field(dir+"/task/"+t.Name()+"/status", "voluntary_ctxt_switches:")
		if err == nil { // the thread has not ended
			u.slept[t.Name()] = k
		}
		u.waited += waited(dir + "/task/" + t.Name() + "/schedstat")
	}
	return u, nil
}

// waited returns the seconds that a thread has waited for a processor, by its schedstat; 0 if it has ended.
func waited(path string) float64 {
	b, err := os.ReadFile(path)
	f := strings.Fields(string(b)) // nanoseconds that it ran, nanoseconds that it waited, slices
	if err != nil || len(f) < 2 {
		return 0
	}
	ns, _ := strconv.ParseUint(f[1], 10, 64)
	return float64(ns) / 1e9
}

// sum returns what the engines have used together, without how often threads have slept.
func sum(nodes []*node) (all used, err error) {
	for _, n := range nodes {
		u, err := n.used()
		if err != nil {
			return all, err
		}
		all.seconds, all.waited = all.seconds+u.seconds, all.waited+u.waited
	}
	return all, nil
}

// field returns the number behind a name in a file of /proc.
func field(path, name string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == name {
			return strconv.Atoi(f[1])
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}
