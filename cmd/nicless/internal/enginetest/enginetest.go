//go:build linux && (amd64 || arm64)

package enginetest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// Serve runs an engine until the test ends, and returns the path of its socket, in a folder of its own.
func Serve(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "e")
	t.Cleanup(Run(t, path, nicless.Config{}))
	return path
}

// Run runs an engine that serves the socket path, and waits until it is ready. stop ends the engine and waits
// for its end; the test calls it once.
func Run(t testing.TB, path string, cfg nicless.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan error, 2) // nil: it is ready; then how it has ended
	go func() {
		told <- nicless.Serve(ctx, path, 0o600, cfg, func() { told <- nil })
	}()
	if err := await.Receive(t, "the engine is ready", told); err != nil {
		cancel()
		require.NoError(t, err)
	}
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, await.Receive(t, "the engine ends", told))
	}
}

// A Client has two queue pairs that are each other's peers, and the objects that they need. The test closes
// its context.
type Client struct {
	*nicless.Context
	PD   *nicless.PD
	MR   *nicless.MR // with all rights
	CQ   *nicless.CQ // of both
	A, B *nicless.QP
}

// Dial makes a client of the engine with the socket path. Its region has 4096 bytes, its CQ is as cfg says.
func Dial(t testing.TB, path string, cfg nicless.CQConfig) *Client {
	t.Helper()
	c, err := nicless.Dial(path)
	require.NoError(t, err)
	return On(t, c, 4096, cfg)
}

// On makes a client of a context. Its region has so many bytes, its CQ is as cfg says.
func On(t testing.TB, ctx *nicless.Context, bytes int, cfg nicless.CQConfig) *Client {
	t.Helper()
	c := &Client{Context: ctx}
	var err error
	c.PD, err = c.AllocPD()
	require.NoError(t, err)
	c.MR, err = c.PD.RegisterMemory(bytes, nicless.FullAccess)
	require.NoError(t, err)
	c.CQ, err = c.CreateCQ(cfg)
	require.NoError(t, err)
	c.A, err = c.PD.CreateQP(nicless.QPConfig{SendCQ: c.CQ})
	require.NoError(t, err)
	c.B, err = c.PD.CreateQP(nicless.QPConfig{SendCQ: c.CQ})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(c.A, c.B, nicless.Connection{}))
	return c
}

// Write returns a signaled WRITE of n bytes, from the first half of the region to the second.
func (c *Client) Write(n int) *nicless.SendWR {
	return &nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{c.MR.SGE(0, n)},
		RemoteAddr: c.MR.Addr() + uint64(len(c.MR.Bytes())/2), RKey: c.MR.RKey()}
}

// Writer dials an engine and posts WRITEs of 8 bytes, one after the other, to the returned queue pair until
// stop is called, which closes the client. It sleeps until each has completed: at full rate it and the engine
// would take both cores of a small machine.
func Writer(t testing.TB, path string) (queue uint32, stop func()) {
	t.Helper()
	c := Dial(t, path, nicless.CQConfig{})
	ctx, quit := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		done := make([]nicless.Completion, 1)
		err := c.A.PostSend(c.Write(8))
		for err == nil {
			if _, err = c.CQ.Wait(ctx, done); err == nil {
				err = c.A.PostSend(c.Write(8))
			}
		}
		ended <- err
	}()
	return c.A.QPN(), func() {
		t.Helper()
		quit()
		require.ErrorIs(t, await.Receive(t, "the writer ends", ended), context.Canceled)
		require.NoError(t, c.Close())
	}
}
