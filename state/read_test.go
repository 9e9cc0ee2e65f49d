package state

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

// patience is how long tests wait for an answer that does not come if something is wrong.
func patience(t *testing.T) context.Context {
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(end)
	return ctx
}

// A reader whose request cannot be sent, because the engine has refused it already, learns why.
func TestRefusedBeforeTheRequest(t *testing.T) {
	path := answering(t, func(c net.Conn) { _, _ = io.WriteString(c, `{"refused":"too many"}`+"\n") })
	more := Request{Kinds: slices.Repeat([]Kind{Queues}, 1<<20)} // than the buffers of a socket hold
	_, err := Read(patience(t), path, more)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "too many")
}
