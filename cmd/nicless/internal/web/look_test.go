//go:build linux && (amd64 || arm64)

package web

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// A page that is closed while the engine is asked ends nothing for the others: they get the look that it has
// begun.
func TestLookOfAPageThatIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.sock")
	engine, err := net.Listen("unix", path+state.Suffix)
	require.NoError(t, err)
	defer engine.Close()
	asked := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := engine.Accept()
			if err != nil {
				return
			}
			asked <- c
		}
	}()
	s := New(Options{Socket: path})
	ctx, closePage := context.WithCancel(t.Context())
	closed, other := make(chan look, 1), make(chan look, 1)
	go func() { closed <- s.looker.look(ctx) }()
	c := await.Receive(t, "a question", asked)
	go func() { other <- s.looker.look(t.Context()) }()
	closePage()
	require.ErrorIs(t, await.Receive(t, "the look of the closed page", closed).err, context.Canceled)
	tellAll(c, manyQueues(3))
	l := await.Receive(t, "the look of the other page", other)
	require.NoError(t, l.err)
	require.Len(t, l.now.Queues, 3)
	require.Empty(t, asked, "it was asked once")
}
