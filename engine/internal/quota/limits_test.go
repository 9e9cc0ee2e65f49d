package quota

import (
	"math"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// All regions together cannot have more bytes than there is memory.
func TestMaxRegionBytes(t *testing.T) {
	machine := fstest.MapFS{"proc/meminfo": &fstest.MapFile{Data: []byte("MemTotal:        4096 kB\nMemFree: 1 kB\n")}}
	limit, source := maxRegionBytes(machine)
	require.Equal(t, 3<<20, limit)
	require.Equal(t, "the system has 4096 kB of memory", source)
	machine["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/job\n")}
	machine["sys/fs/cgroup/job/memory.max"] = &fstest.MapFile{Data: []byte("1048576")}
	limit, source = maxRegionBytes(machine)
	require.Equal(t, 3<<18, limit)
	require.Equal(t, "the memory of the device's control group is limited to 1048576 bytes", source)
	limit, _ = maxRegionBytes(fstest.MapFS{})
	require.Equal(t, maxAddressSpace/4*3, limit)
}

// A region cannot have more bytes than the machine has memory and swap.
func TestMachineMemory(t *testing.T) {
	const most = math.MaxUint64
	for _, row := range []struct {
		says   unix.Sysinfo_t
		bytes  int
		source string
	}{
		{unix.Sysinfo_t{Totalram: 4 << 20, Totalswap: 1 << 20, Unit: 1}, 5 << 20, "the system has 4096 kB of memory and 1024 kB of swap"},
		{unix.Sysinfo_t{Totalram: 1 << 10, Unit: 4096}, 4 << 20, "the system has 4096 kB of memory and 0 kB of swap"},
		{unix.Sysinfo_t{Totalram: most, Totalswap: most, Unit: 4096}, maxAddressSpace, "the system has 18014398509481983 kB of memory and 18014398509481983 kB of swap"},
		{unix.Sysinfo_t{}, maxAddressSpace, "the system does not say how much memory it has"},
	} {
		bytes, source := machineMemory(&row.says)
		require.Equal(t, row.bytes, bytes, row.source)
		require.Equal(t, row.source, source)
	}
}

// Every resource has a limit, a name, and a text that says what the limit comes from.
func TestSystemLimits(t *testing.T) {
	l := New(os.DirFS("/"))
	for r := range Resource(numResources) {
		require.Positive(t, l.Limit(r))
		require.NotEmpty(t, names[r])
		require.NotEmpty(t, l.source[r])
	}
}
