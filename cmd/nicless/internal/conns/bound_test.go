package conns

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// closed reports whether a connection has been closed on this side.
func closed(c net.Conn) bool {
	return c.SetDeadline(time.Time{}) == io.ErrClosedPipe
}

func TestBound(t *testing.T) {
	const most = 3
	b := NewBound(most)
	opened := func() net.Conn {
		c, _ := net.Pipe()
		b.Note(c, http.StateNew)
		return c
	}
	first, second, third := opened(), opened(), opened()
	b.Note(first, http.StateActive)
	b.Note(second, http.StateActive)
	b.Note(third, http.StateActive)
	require.True(t, closed(opened()), "all have requests")

	b.Note(second, http.StateIdle)
	b.Note(first, http.StateIdle)
	fourth := opened()
	require.True(t, closed(second), "it has been idle for longest")
	require.False(t, closed(first))
	require.False(t, closed(fourth))
	require.Len(t, b.open, most)
	b.Note(second, http.StateActive) // a request had come meanwhile
	b.Note(second, http.StateIdle)
	b.Note(second, http.StateClosed)
	require.Len(t, b.open, most)

	fifth := opened()
	require.True(t, closed(first))
	require.False(t, closed(fourth), "a new one is idle since it was opened")
	b.Note(third, http.StateClosed)
	b.Note(fifth, http.StateHijacked)
	require.Len(t, b.open, most-2)
}

// A request that is refused makes its connection idle at once.
func TestRelease(t *testing.T) {
	b := NewBound(1)
	first, _ := net.Pipe()
	b.Note(first, http.StateNew)
	b.Note(first, http.StateActive)
	Release(t.Context())
	c, _ := net.Pipe()
	b.Note(c, http.StateNew)
	require.True(t, closed(c), "the context is of no bound")
	Release(b.Context(t.Context(), first))
	c, _ = net.Pipe()
	b.Note(c, http.StateNew)
	require.True(t, closed(first))
	require.False(t, closed(c))
	Release(b.Context(t.Context(), first))
	require.Len(t, b.open, 1, "what has lost its place gets none")
}
