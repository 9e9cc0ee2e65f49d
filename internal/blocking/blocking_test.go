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
		for ok = false; !ok; { // a signal of the runtime ends a wait, too
			ok, err = Readable(r, time.Hour)
			require.NoError(t, err)
		}
		_, err = unix.Read(r, make([]byte, 1))
		require.NoError(t, err)
	}
	_, e := syscall6(unix.SYS_PPOLL, 0, 1, 0, 0, 0, 0)
	require.Equal(t, unix.EFAULT, e)
}

// A wait for events ends when there are some, while collections of garbage move stacks and other goroutines
// need the only P.
func TestEvents(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, w := pipe(t)
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(epoll)
	const number = 77
	require.NoError(t, unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, r, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: number}))
	for range 200 {
		go func() {
			runtime.GC()
			_, _ = w.Write([]byte{1})
		}()
		var events [4]unix.EpollEvent
		n := 0
		for n == 0 { // a signal of the runtime ends a wait, too
			n = Events(epoll, events[:])
		}
		require.Equal(t, 1, n)
		require.Equal(t, int32(number), events[0].Fd)
		_, err = unix.Read(r, make([]byte, 1))
		require.NoError(t, err)
	}
	require.Zero(t, Events(r, make([]unix.EpollEvent, 1)), "a pipe is no epoll descriptor")
}

// A wait for a word ends when its time is over, and at once if the word has another value.
func TestFutex(t *testing.T) {
	word := new(uint32)
	require.Equal(t, unix.ETIMEDOUT, Futex(word, 0, time.Millisecond))
	require.Equal(t, unix.EAGAIN, Futex(word, 1, time.Hour))
}

// Waits allocate nothing: an engine that sleeps now and then must not make its program collect garbage. (The
// race detector takes some of what a sync.Pool keeps away, so few allocations count as none.)
func TestWaitsAllocateNothing(t *testing.T) {
	r, _ := pipe(t)
	word := new(uint32)
	var events [1]unix.EpollEvent
	require.Less(t, testing.AllocsPerRun(100, func() {
		_, _ = Readable(r, 0)
		_ = Events(r, events[:])
		_ = Futex(word, 1, time.Hour)
	}), 2.0)
}
