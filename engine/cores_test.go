package engine

import (
	"bytes"
	"log/slog"
	"math"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func files(text map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, s := range text {
		m[name] = &fstest.MapFile{Data: []byte(s)}
	}
	return m
}

func TestAllowance(t *testing.T) {
	const v2 = "0::/user/job\n"
	for name, row := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"no groups":       {nil, math.Inf(1)},
		"no quota":        {map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/user/job/cpu.max": "max 100000\n"}, math.Inf(1)},
		"its own":         {map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/user/job/cpu.max": "50000 100000\n"}, 0.5},
		"two cores":       {map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/user/job/cpu.max": "200000 100000\n"}, 2},
		"one around it":   {map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/user/job/cpu.max": "200000 100000", "sys/fs/cgroup/user/cpu.max": "25000 100000"}, 0.25},
		"of a container":  {map[string]string{"proc/self/cgroup": "0::/docker/abc\n", "sys/fs/cgroup/cpu.max": "75000 100000\n"}, 0.75},
		"version 1":       {map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/job\n2:memory:/job\n", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "30000\n", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"}, 0.3},
		"version 1, none": {map[string]string{"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, math.Inf(1)},
		"another one's":   {map[string]string{"proc/self/cgroup": "1:cpuset:/job\n", "sys/fs/cgroup/cpuset/job/cpu.max": "1 100000"}, math.Inf(1)},
		"nonsense":        {map[string]string{"proc/self/cgroup": "x\n" + v2 + "0::/../..\n", "sys/fs/cgroup/user/job/cpu.max": "0 0"}, math.Inf(1)},
	} {
		require.Equal(t, row.want, allowance(files(row.files)), name)
	}
}

// Less than a core makes any policy the one that sleeps, and is said.
func TestQuotaBelowACore(t *testing.T) {
	for _, want := range []Idle{IdleNap, IdleSpin, IdleMonitor} {
		var log bytes.Buffer
		j := journal.New(slog.New(slog.NewTextHandler(&log, nil)))
		require.Equal(t, IdleNap, want.policy(true, 0.5, j))
		j.Flush(10 * time.Second)
		require.Contains(t, log.String(), "cores=0.50")
		require.Equal(t, want, want.policy(true, 1, j))
	}
}

func TestWhyACoreIsNotAllowed(t *testing.T) {
	online := files(map[string]string{"sys/devices/system/cpu/online": "0-3,8\n"})
	for cpu, want := range map[int]string{2: "not allowed", 8: "not allowed", 4: "does not exist", 1000: "does not exist", -1: "does not exist"} {
		require.Contains(t, whyNotOn(online, cpu), want, cpu)
	}
	require.Contains(t, whyNotOn(files(nil), 2), "does not exist or is not allowed")
	var set unix.CPUSet
	for _, cpu := range []int{0, 1, 2, 5, 1023} {
		set.Set(cpu)
	}
	require.Equal(t, "0-2,5,1023", coreList(&set))
}
