package schedstat

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func read(t *testing.T) Threads {
	t.Helper()
	threads, err := Read(os.Getpid())
	if errors.Is(err, ErrNone) || runtime.GOOS != "linux" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return threads
}

// A thread that works for 20 ms of its own processor time has run for that long.
func TestWorkIsCounted(t *testing.T) {
	before := read(t)
	for read(t).Since(before).Sum().Ran < 20*time.Millisecond {
	}
	require.NotZero(t, len(before))
}

func TestNoSuchProcess(t *testing.T) {
	_, err := Read(1 << 30)
	require.ErrorContains(t, err, "process 1073741824")
}

func TestLongest(t *testing.T) {
	threads := Threads{1: {Waited: 5}, 2: {Waited: 30}, 3: {Waited: 10}, 4: {}}
	require.EqualValues(t, 40, threads.Longest(2))
	require.EqualValues(t, 45, threads.Longest(9))
	require.EqualValues(t, 0, Threads{}.Longest(1))
}

func TestSinceCountsNewThreadsFromTheirStart(t *testing.T) {
	d := Threads{1: {7, 9}, 2: {1, 2}}.Since(Threads{1: {4, 5}, 3: {100, 100}})
	require.Equal(t, Threads{1: {3, 4}, 2: {1, 2}}, d)
}

func TestFamilyHasGrandchildren(t *testing.T) {
	read(t)
	c := exec.Command("sh", "-c", "sleep 1000 & read line; kill $!")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	for len(Family(c.Process.Pid)) < 2 {
		runtime.Gosched()
	}
	require.Contains(t, Family(os.Getpid()), Family(c.Process.Pid)[1])
	require.NoError(t, in.Close())
	_ = c.Wait()
}

func TestParentIn(t *testing.T) {
	require.Equal(t, 17, parentIn([]byte("5 (a ) b (c)) S 17 5 5 0")))
	require.Equal(t, 0, parentIn([]byte("")))
	require.Equal(t, 0, parentIn([]byte("5 (")))
}
