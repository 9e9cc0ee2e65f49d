//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// The screen of an engine that runs has its queues, and the WQE and the completion of what was posted.
func TestLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	stop := enginetest.Run(t, path, nicless.Config{})
	c := enginetest.Dial(t, path, nicless.CQConfig{PollOnly: true})
	require.NoError(t, c.A.PostSend(c.Write(5)))
	got := make([]nicless.Completion, 1)
	await.Until(t, "the WRITE completes", func() bool {
		n, err := c.CQ.Poll(got)
		require.NoError(t, err)
		return n == 1
	})

	s := newScreen(t, Live(path), 120, 30)
	require.Contains(t, s.text(), "[Queues]  Clients  CQs  2 of 2")
	s.keys(fmt.Sprintf("/ 0x%x enter", c.A.QPN()))
	s.keys("N enter")
	for s.m.page.number != c.A.QPN() { // the peer's row has the number, too
		s.keys("esc down enter")
	}
	require.Contains(t, s.text(), "WQEs done 1  bytes 5")
	s.keys("tab")
	require.Contains(t, s.text(), "> 0 done   RDMA_WRITE raddr")
	require.Contains(t, s.text(), "qpn           "+fmt.Sprint(c.A.QPN()))
	for s.m.page.current().queue == c.A.QPN() {
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
	s.keys("esc refresh")
	require.Contains(t, s.text(), "ENGINE GONE (no such file or directory)")
}
