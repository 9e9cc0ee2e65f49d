package state

import (
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// answering listens as an engine does, and answers one reader, whose request it does not read.
func answering(t *testing.T, answer func(c net.Conn)) (path string) {
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path+Suffix)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err == nil {
			answer(c)
			_ = c.Close()
		}
	}()
	return path
}

// A reader whose request cannot be sent, because the engine has refused it already, learns why.
func TestRefusedBeforeTheRequest(t *testing.T) {
	path := answering(t, func(c net.Conn) { _, _ = io.WriteString(c, `{"refused":"too many"}`+"\n") })
	more := Request{Kinds: slices.Repeat([]Kind{Queues}, 1<<20)} // than the buffers of a socket hold
	_, err := Read(t.Context(), path, more)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "too many")
}
