package cgroup

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func files(text map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, s := range text {
		m[name] = &fstest.MapFile{Data: []byte(s)}
	}
	return m
}

func TestCPUQuota(t *testing.T) {
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
		require.Equal(t, row.want, CPUQuota(files(row.files)), name)
	}
}

func TestMemoryLimit(t *testing.T) {
	const v2 = "0::/user/job\n"
	for name, row := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"no groups":     {nil, math.Inf(1)},
		"no limit":      {map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/user/job/memory.max": "max\n"}, math.Inf(1)},
		"its own":       {map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/user/job/memory.max": "1048576\n"}, 1 << 20},
		"one around it": {map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/user/job/memory.max": "max", "sys/fs/cgroup/user/memory.max": "4096"}, 4096},
		"version 1":     {map[string]string{"proc/self/cgroup": "4:memory:/job\n", "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "8192\n"}, 8192},
		"another one's": {map[string]string{"proc/self/cgroup": "1:cpuset:/job\n", "sys/fs/cgroup/cpuset/job/memory.max": "1"}, math.Inf(1)},
	} {
		require.Equal(t, row.want, MemoryLimit(files(row.files)), name)
	}
}
