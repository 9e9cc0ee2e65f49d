package engine

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

func files(text map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, s := range text {
		m[name] = &fstest.MapFile{Data: []byte(s)}
	}
	return m
}

// Users other than the device's own have no more bytes of regions than there is memory.
func TestRegionsOfOthersFitIntoMemory(t *testing.T) {
	machine := map[string]string{"proc/meminfo": "MemTotal:        4096 kB\nMemFree: 1 kB\n"}
	most, behind := maxContents(files(machine))
	require.Equal(t, 3<<20, most)
	require.Equal(t, "the system has 4096 kB of memory", behind)
	machine["proc/self/cgroup"] = "0::/job\n"
	machine["sys/fs/cgroup/job/memory.max"] = "1048576"
	most, behind = maxContents(files(machine))
	require.Equal(t, 3<<18, most)
	require.Equal(t, "the memory of the device's control group is limited to 1048576 bytes", behind)

	r := newRig(t, Config{})
	r.e.shares.most[contents], r.e.shares.behind[contents] = most, behind
	own := uint32(os.Getuid())
	_, err := r.e.createMemory(own+1, "test", most/2+shm.PageSize)
	require.ErrorContains(t, err, "bytes of regions")
	require.ErrorContains(t, err, behind)
	for uid, size := range map[uint32]int{own: 2 * most, own + 1: most / 2} {
		m, err := r.e.createMemory(uid, "test", size)
		require.NoError(t, err)
		require.NoError(t, m.Seal())
		r.e.releaseMemory(uid, m)
	}
	r.until("shares are given back", func() bool { return r.owed() == bill{} })
}
