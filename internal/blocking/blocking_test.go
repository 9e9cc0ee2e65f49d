//go:build linux

package blocking

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pipe returns a pipe.
func pipe(t *testing.T) (r int, w *os.File) {
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	w = os.NewFile(uintptr(fds[1]), "pipe")
	t.Cleanup(func() {
		_ = unix.Close(fds[0])
		_ = w.Close()
	})
	return fds[0], w
}

// A wait ends when its time is over, or when the descriptor becomes readable, while collections of garbage
// move stacks and other goroutines need the only P.
func TestReadable(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, w := pipe(t)
	ok, err := Readable(r, time.Millisecond)
	require.NoError(t, err)
	require.False(t, ok)
	for range 200 {
		go func() {
			runtime.GC()
			_, _ = w.Write([]byte{1})
		}()
		ok, err = Readable(r, time.Hour)
		require.NoError(t, err)
		require.True(t, ok)
		_, err = unix.Read(r, make([]byte, 1))
		require.NoError(t, err)
	}
	_, e := Syscall6(unix.SYS_PPOLL, 0, 1, 0, 0, 0, 0)
	require.Equal(t, unix.EFAULT, e)
}

// switches returns how often threads of this process have slept.
func switches(t *testing.T) int64 {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Nvcsw
}

// A wait wakes few threads: this one, and sysmon twice. A wait of package unix wakes sysmon some 60 times, or
// a few times if the machine is very busy. Other programs can make a wait dearer, so the cheapest of several
// series counts.
func TestWaitsWakeFewThreads(t *testing.T) {
	const waits, most = 10, 4
	r, _ := pipe(t)
	var series []int64
	for len(series) < 20 {
		before := switches(t)
		for range waits {
			_, err := Readable(r, 40*time.Millisecond)
			require.NoError(t, err)
		}
		n := switches(t) - before
		if n <= waits*most {
			return
		}
		series = append(series, n)
	}
	require.Fail(t, "each wait wakes too many threads", "%d waits: %v", waits, series)
}
