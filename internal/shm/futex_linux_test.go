package shm

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Wake ends Sleep through another mapping of the same memory. A word that has another value
// already is not waited for.
func TestSleepAndWake(t *testing.T) {
	a, err := Create("futex", PageSize)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	b, err := AttachPart(a.File(), 0, PageSize)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	sleeper, waker := BE32At(a.Bytes(), 64), BE32At(b.Bytes(), 64)

	waker.Publish(7)
	require.NoError(t, sleeper.Sleep(6, time.Hour), "another value")
	require.NoError(t, sleeper.Sleep(7, time.Millisecond), "the time is over")

	woken := make(chan error)
	go func() { woken <- sleeper.Sleep(7, time.Hour) }()
	deadline := time.After(time.Minute)
	for {
		require.NoError(t, waker.Wake()) // again and again: the other goroutine may not sleep yet
		select {
		case err := <-woken:
			require.NoError(t, err)
			return
		case <-deadline:
			require.FailNow(t, "Sleep has not returned")
		default:
		}
	}
}

// Memory that has lost its pages is no memory to wait in.
func TestSleepNeedsMemory(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "gone")
	require.NoError(t, err)
	require.NoError(t, f.Truncate(PageSize))
	r, err := Attach(f, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	word := BE32At(r.Bytes(), 0)
	require.NoError(t, f.Truncate(0))
	require.ErrorContains(t, word.Sleep(0, time.Hour), "shm: wait for a word: bad address")
	require.ErrorContains(t, word.Wake(), "shm: wake those that wait for a word: bad address")
}

// However many wait for a word, one call wakes a few of them.
func TestWakeIsBounded(t *testing.T) {
	word := BE32At(make([]byte, 64), 0)
	const sleepers = 4 * mostWoken
	var left atomic.Int32
	left.Store(sleepers)
	for range sleepers {
		go func() {
			_ = word.Sleep(0, time.Hour)
			left.Add(-1)
		}()
	}
	most := 0
	for end := time.Now().Add(time.Minute); left.Load() > 0; runtime.Gosched() {
		require.True(t, time.Now().Before(end), "%d sleep", left.Load())
		if left.Load() == sleepers && sleepingThreads(t) < sleepers {
			continue // not before all sleep
		}
		n, err := word.wake()
		require.NoError(t, err)
		most = max(most, n)
	}
	require.Equal(t, mostWoken, most)
}

// sleepingThreads returns how many threads of this process wait for a futex for an hour.
func sleepingThreads(t *testing.T) (n int) {
	list, err := filepath.Glob("/proc/self/task/*/syscall")
	require.NoError(t, err)
	for _, name := range list {
		b, _ := os.ReadFile(name) // the thread may have ended
		if f := strings.Fields(string(b)); len(f) > 2 && f[0] == strconv.Itoa(unix.SYS_FUTEX) && f[2] == "0x0" {
			n++
		}
	}
	return n
}
