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
	Threads int
	Memory  uint64 // bytes: the share of each process in what it has mapped (PSS)
}

func (u Use) String() string {
	return fmt.Sprintf("%.1f %% of a core, %.0f wakeups of each engine in a second, %d threads, %d MiB",
		100*u.Cores, u.Wakeups, u.Threads, u.Memory>>20)
}

// measure measures for the time d.
func measure(nodes []*node, d time.Duration) (u Use, err error) {
	var time0, time1 float64
	var wakeups0, wakeups1 int
	began := time.Now()
	time0, wakeups0, _, err = used(nodes)
	if err != nil {
		return u, err
	}
	time.Sleep(d)
	passed := time.Since(began).Seconds()
	time1, wakeups1, u.Threads, err = used(nodes)
	if err != nil {
		return u, err
	}
	u.Cores = (time1 - time0) / passed
	u.Wakeups = float64(wakeups1-wakeups0) / passed / float64(len(nodes))
	for _, n := range nodes {
		kib, err := field(fmt.Sprintf("/proc/%d/smaps_rollup", n.cmd.Process.Pid), "Pss:")
		if err != nil {
			return u, err
		}
		u.Memory += uint64(kib) << 10
	}
	return u, nil
}

// used returns the seconds of processor that the engines have used, and how often their threads have slept.
func used(nodes []*node) (seconds float64, slept, threads int, err error) {
	for _, n := range nodes {
		dir := fmt.Sprintf("/proc/%d", n.cmd.Process.Pid)
		b, err := os.ReadFile(dir + "/stat")
		if err != nil {
			return 0, 0, 0, err
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		seconds += float64(user+system) / clockTicks
		tasks, err := os.ReadDir(dir + "/task")
		if err != nil {
			return 0, 0, 0, err
		}
		for _, t := range tasks {
			k, err := field(dir+"/task/"+t.Name()+"/status", "voluntary_ctxt_switches:")
			if err != nil {
				continue // the thread has ended
			}
			slept += k
			threads++
		}
	}
	return seconds, slept, threads, nil
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
