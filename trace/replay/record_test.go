//go:build linux && (amd64 || arm64)

package replay_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/replay"
	"github.com/stretchr/testify/require"
)

// record returns the trace of an engine while a client used it.
func record(t *testing.T, clients int, recorded bool, use func(c []*nicless.Context)) []byte {
	t.Helper()
	dir, err := os.MkdirTemp("", "replay") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "engine")
	ctx, cancel := context.WithCancel(await.Context(t))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- nicless.Serve(ctx, socket, 0o600, nicless.Config{}, func() { close(ready) }) }()
	<-ready
	watcher, err := nicless.Dial(socket)
	require.NoError(t, err)
	w, err := watcher.Watch(nicless.WatchFilter{All: true, Replay: recorded})
	require.NoError(t, err)
	var all []*nicless.Context
	for range clients {
		c, err := nicless.Dial(socket)
		require.NoError(t, err)
		all = append(all, c)
	}
	use(all)
	for _, c := range all {
		require.NoError(t, c.Close())
	}
	var b bytes.Buffer
	out, err := trace.NewWriter(&b, w.Clock())
	require.NoError(t, err)
	var e trace.Event
	for gone := 0; gone < clients; {
		require.NoError(t, w.Next(await.Context(t), &e))
		if e.Kind == trace.KindClientGone {
			gone++
		}
		require.NoError(t, out.Write(&e))
	}
	require.NoError(t, out.Close(e.Time, false))
	require.NoError(t, w.Close())
	require.NoError(t, watcher.Close())
	cancel()
	require.NoError(t, <-ended)
	return b.Bytes()
}

// same replays a trace, and requires that nothing differs and nothing is left out.
func same(t *testing.T, b []byte) *replay.Report {
	t.Helper()
	r, err := replay.Run(bytes.NewReader(b), replay.Options{})
	require.NoError(t, err)
	for _, d := range r.Differences {
		t.Log(d.Event, d.String())
	}
	require.True(t, r.Same())
	require.Empty(t, r.LeftOut)
	require.NotZero(t, r.CQEs)
	return r
}

// A side is one end of a connection, with its own memory.
type side struct {
	t  *testing.T
	mr *nicless.MR
	cq *nicless.CQ
	qp *nicless.QP
	pd *nicless.PD
}

func newSide(t *testing.T, c *nicless.Context, cfg nicless.QPConfig, q nicless.CQConfig) *side {
	t.Helper()
	s := &side{t: t}
	var err error
	s.pd, err = c.AllocPD()
	require.NoError(t, err)
	s.mr, err = s.pd.RegisterMemory(1<<20, nicless.FullAccess)
	require.NoError(t, err)
	s.cq, err = c.CreateCQ(q)
	require.NoError(t, err)
	cfg.SendCQ = s.cq
	s.qp, err = s.pd.CreateQP(cfg)
	require.NoError(t, err)
	return s
}

// wait takes n completions.
func (s *side) wait(n int) (all []nicless.Completion) {
	s.t.Helper()
	for len(all) < n {
		done := make([]nicless.Completion, n-len(all))
		k, err := s.cq.Wait(await.Context(s.t), done)
		require.NoError(s.t, err)
		all = append(all, done[:k]...)
	}
	return all
}

func (s *side) send(wr nicless.SendWR) {
	s.t.Helper()
	require.NoError(s.t, s.qp.PostSend(&wr))
}

// fill gives memory contents that depend on a seed.
func (s *side) fill(seed byte, at, n int) {
	b := s.mr.Bytes()[at : at+n]
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)*3
	}
}
