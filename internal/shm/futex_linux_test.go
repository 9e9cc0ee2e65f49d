package shm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
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
	await.Until(t, "Sleep returns", func() bool {
		require.NoError(t, waker.Wake()) // again and again: the other goroutine may not sleep yet
		select {
		case err := <-woken:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	})
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

// However many wait for a word, one call wakes a few of them. A signal to a thread ends Sleep too, and
// the runtime may send one to a thread that is about to sleep, so sleepers sleep until the word changes.
func TestWakeIsBounded(t *testing.T) {
	word := BE32At(make([]byte, 64), 0)
	const sleepers = 4 * mostWoken
	var left atomic.Int32
	left.Store(sleepers)
	for range sleepers {
		go func() {
			for word.Observe() == 0 {
				_ = word.Sleep(0, time.Hour)
			}
			left.Add(-1)
		}()
	}
	await.Until(t, "all sleep", func() bool { return sleepingThreads(t, word) == sleepers })
	n, err := word.wake()
	require.NoError(t, err)
	require.Equal(t, mostWoken, n)
	word.Publish(1)
	most := 0
	await.Until(t, "all are awake", func() bool {
		n, err := word.wake()
		require.NoError(t, err)
		most = max(most, n)
		return left.Load() == 0
	}, func() any { return left.Load() })
	require.LessOrEqual(t, most, mostWoken)
}

// sleepingThreads returns how many threads of this process wait for the word. The kernel goes on with a
// wait after the process was stopped; that is another system call.
func sleepingThreads(t *testing.T, word *BE32) (n int) {
	list, err := filepath.Glob("/proc/self/task/*/syscall")
	require.NoError(t, err)
	at := fmt.Sprintf("%p", word)
	calls := []string{strconv.Itoa(unix.SYS_FUTEX), strconv.Itoa(unix.SYS_RESTART_SYSCALL)}
	for _, name := range list {
		b, _ := os.ReadFile(name) // the thread may have ended
		f := strings.Fields(string(b))
		if len(f) > 2 && slices.Contains(calls, f[0]) && f[1] == at && f[2] == "0x0" {
			n++
		}
	}
	return n
}
