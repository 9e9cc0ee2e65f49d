package unixsock

import (
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// taken returns a connection that a Waiter has taken over, and its other end.
func taken(t *testing.T, w *Waiter, uid uint32) (*Conn, *net.UnixConn) {
	t.Helper()
	mine, theirs := ends(t)
	c, err := w.NewConn(mine, uid)
	require.NoError(t, err)
	require.Error(t, Control(mine, func(int) error { return nil }), "it is taken over")
	t.Cleanup(func() { _ = c.Close() })
	return c, theirs
}

func newWaiter(t *testing.T) *Waiter {
	t.Helper()
	w, err := NewWaiter()
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

// Requests arrive whether a thread waits for them or the Waiter does, and so does the end.
func TestConnectionThatIsSilentAtTimes(t *testing.T) {
	w := newWaiter(t)
	c, theirs := taken(t, w, 7)
	in, oob := make([]byte, 16), make([]byte, 64)
	watched := w.idle
	ask := func() {
		t.Helper()
		_, err := theirs.Write([]byte("request"))
		require.NoError(t, err)
	}
	for _, silent := range []bool{false, true, true, false} {
		if silent {
			go func() {
				for !watched() {
					runtime.Gosched()
				}
				_, _ = theirs.Write([]byte("request"))
			}()
		} else {
			ask()
		}
		n, _, _, err := c.Peek(in, oob)
		require.NoError(t, err)
		require.Equal(t, "request", string(in[:n]))
		require.NoError(t, c.Take())
		require.False(t, watched(), "its thread waits")
		require.False(t, Unread(c))
		require.NoError(t, c.Send([]byte("answer")))
		require.True(t, Unread(c))
		n, err = theirs.Read(in)
		require.NoError(t, err)
		require.Equal(t, "answer", string(in[:n]))
	}
	go func() {
		for !watched() {
			runtime.Gosched()
		}
		HangUp(c)
	}()
	n, _, _, err := c.Peek(in, oob)
	require.NoError(t, err)
	require.Zero(t, n)
	require.ErrorIs(t, c.Send([]byte("answer")), unix.EPIPE)
	require.NoError(t, c.Close())
	require.True(t, watched())
	require.Empty(t, w.conns)
	require.Empty(t, w.hot)
}

// A user whose programs send requests all the time leaves threads for others.
func TestThreadsForEachUser(t *testing.T) {
	w := newWaiter(t)
	for range mostHot / 2 {
		require.True(t, w.occupy(1))
	}
	require.False(t, w.occupy(1))
	for range mostHot / 4 {
		require.True(t, w.occupy(2))
	}
	require.False(t, w.occupy(2), "half of the rest")
	w.vacate(1)
	w.vacate(1)
	require.True(t, w.occupy(2))
	require.False(t, w.occupy(1))
}

// A connection without a thread is served too.
func TestConnectionWithoutThread(t *testing.T) {
	w := newWaiter(t)
	for w.occupy(7) {
	}
	c, theirs := taken(t, w, 7)
	in := make([]byte, 16)
	for range 3 {
		go func() { _, _ = theirs.Write([]byte{1}) }()
		n, _, _, err := c.Peek(in, nil)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, c.Take())
		require.False(t, c.hot)
	}
}

// idle reports whether no connection has a thread of its own.
func (w *Waiter) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total == 0
}

// When the Waiter is closed, waiting ends.
func TestWaiterEnds(t *testing.T) {
	w, err := NewWaiter()
	require.NoError(t, err)
	c, _ := taken(t, w, 7)
	go func() {
		for !w.idle() { // until no thread waits for a request any more
			runtime.Gosched()
		}
		w.Close()
	}()
	for err == nil {
		_, _, _, err = c.Peek(make([]byte, 1), nil)
	}
	require.Error(t, err)
}
