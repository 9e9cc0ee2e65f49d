//go:build linux && (amd64 || arm64)

package top

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// The screen of an engine that runs has its queues, and the WQE and the completion of what was posted.
func TestLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- nicless.Serve(ctx, path, 0o600, nicless.Config{}, func() { close(ready) })
	}()
	await.Receive(t, "the engine is ready", ready)
	c, err := nicless.Dial(path)
	require.NoError(t, err)
	pd, err := c.AllocPD()
	require.NoError(t, err)
	mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(t, err)
	cq, err := c.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(t, err)
	a, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	b, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(a, b, nicless.Connection{}))
	require.NoError(t, a.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
		SGE: []nicless.SGE{mr.SGE(0, 5)}, RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey()}))
	got := make([]nicless.Completion, 1)
	await.Until(t, "the WRITE completes", func() bool {
		n, err := cq.Poll(got)
		require.NoError(t, err)
		return n == 1
	})

	s := newScreen(t, Live(path), 120, 30)
	require.Contains(t, s.text(), "[Queues]  Clients  CQs  2 of 2")
	s.keys(fmt.Sprintf("/ 0x%x enter", a.QPN()))
	s.keys("N enter")
	for s.m.page.number != a.QPN() { // the peer's row has the number, too
		s.keys("esc down enter")
	}
	require.Contains(t, s.text(), "WQEs done 1  bytes 5")
	s.keys("tab")
	require.Contains(t, s.text(), "> 0 done   RDMA_WRITE raddr")
	require.Contains(t, s.text(), "qpn           "+fmt.Sprint(a.QPN()))
	for s.m.page.current().queue == a.QPN() {
		s.keys("tab")
	}
	require.Contains(t, s.text(), "SUCCESS RDMA_WRITE")

	require.NoError(t, c.Close())
	// The engine removes what a client had one after another, and answers meanwhile.
	await.Until(t, "the queue has gone", func() bool {
		s.keys("refresh")
		return strings.Contains(s.text(), "(it has gone)")
	})
	stop()
	require.NoError(t, await.Receive(t, "the engine ends", ended))
	s.keys("esc refresh")
	require.Contains(t, s.text(), "ENGINE GONE (no such file or directory)")
}
