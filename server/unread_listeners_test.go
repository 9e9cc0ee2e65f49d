package server

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// Answers that clients of one listener have read do not count against the user's clients
// of another listener of the same engine.
func TestListenersOfAnEngineShareUnreadAnswers(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.bound(nic.Bounds{Unread: 8}) // four are one user's share
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	r.serveBy(r.listen(one, 0o600))
	l := r.listen(two, 0o600)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	r.dial(one).hello()
	r.dial(one).hello() // this client reads its whole answer
	c := r.dial(two)
	c.send(control.Append(nil, control.OpHello, 0, 1, &hello))
	h, payload, _, ok := c.answer()
	require.True(t, ok)
	require.Equal(t, control.FlagAnswer, h.Flags, "%s", payload)
}
