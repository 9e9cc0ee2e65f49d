package cores

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Workers have cores of their own. A thread whose cores are not named has all other cores.
func TestChoose(t *testing.T) {
	var allowed unix.CPUSet
	for _, cpu := range []int{0, 1, 2, 5} {
		allowed.Set(cpu)
	}
	for _, row := range []struct {
		cpus, dma, want []int
		err             string
	}{
		{nil, []int{2, 5}, []int{0, 1}, ""},
		{[]int{1}, []int{2}, []int{1}, ""},
		{[]int{1, 2}, nil, []int{1, 2}, ""},
		{nil, []int{3}, nil, "; allowed: 0-2,5"},
		{nil, []int{-1}, nil, "DMA core -1 does not exist"},
		{nil, []int{2, 2}, nil, "DMA core 2 is named twice"},
		{[]int{1, 2}, []int{2}, nil, "core 2 is to be the engine's own and a DMA core"},
		{nil, []int{0, 1, 2, 5}, nil, "4 DMA cores of the 4 that are allowed to this process leave none to the engine itself"},
	} {
		set, err := choose(allowed, row.cpus, row.dma)
		if row.err != "" {
			require.ErrorIs(t, err, ErrUnavailable)
			require.ErrorContains(t, err, row.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, len(row.want), set.Count())
		for _, core := range row.want {
			require.True(t, set.IsSet(core))
		}
	}
}

// Pin puts the calling thread on its core, and unpin gives it the cores back that it had
// before.
func TestPin(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, is, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &was))
	core := 0
	for !was.IsSet(core) {
		core++
	}
	one.Set(core)
	unpin, err := Pin([]int{core}, nil)
	require.NoError(t, err)
	require.NoError(t, unix.SchedGetaffinity(0, &is))
	require.Equal(t, one, is)
	unpin()
	require.NoError(t, unix.SchedGetaffinity(0, &is))
	require.Equal(t, was, is)

	unpin, err = Pin(nil, nil)
	require.NoError(t, err)
	unpin()
	_, err = Pin(nil, []int{1 << 20})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, PinWorker(1<<9), ErrUnavailable)
}

func TestWhyACoreIsNotAllowed(t *testing.T) {
	online := fstest.MapFS{"sys/devices/system/cpu/online": &fstest.MapFile{Data: []byte("0-3,8\n")}}
	for cpu, want := range map[int]string{2: "not allowed", 8: "not allowed", 4: "does not exist", 1000: "does not exist", -1: "does not exist"} {
		require.Contains(t, whyUnavailable(online, cpu), want, cpu)
	}
	require.Contains(t, whyUnavailable(fstest.MapFS{}, 2), "does not exist or is not allowed")
	require.Equal(t, 5, countOnline(online))
	require.Zero(t, countOnline(fstest.MapFS{}))
	var set unix.CPUSet
	for _, cpu := range []int{0, 1, 2, 5, 1023} {
		set.Set(cpu)
	}
	require.Equal(t, "0-2,5,1023", list(&set))
}
