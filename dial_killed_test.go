package nicless

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

const dialsToKilled = 4

// listens listens as "db" for all, and accepts who dials, or lets dialsToKilled wait.
func listens(path string, accepts bool) error {
	c, err := Dial(path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := c.ListenName("db", ListenConfig{ToAll: true})
	if err != nil {
		return err
	}
	pd, err := c.AllocPD()
	if err != nil {
		return err
	}
	cq, err := c.CreateCQ(CQConfig{})
	if err != nil {
		return err
	}
	mr, err := pd.RegisterMemory(4096, FullAccess)
	if err != nil {
		return err
	}
	fmt.Println("listens")
	for n := 0; accepts || n < dialsToKilled; n++ {
		call, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		if !accepts {
			continue
		}
		q, err := pd.CreateQP(QPConfig{SendCQ: cq})
		if err != nil {
			return err
		}
		if err := call.Accept(ctx, q, Connection{}, mr.Remote("m")); err != nil {
			return err
		}
	}
	fmt.Println("all wait")
	_, err = c.NextEvent(ctx)
	for err == nil {
		_, err = c.NextEvent(ctx)
	}
	return err
}

// Programs dial a name, and the engine of the listener is killed. All hear of it, in words, and dial again
// with the same queue pairs when the engine and the listener are back.
func TestListenersEngineIsKilled(t *testing.T) {
	t.Run("pool", func(t *testing.T) {
		link := fmt.Sprintf("pool:%s,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
		killListener(t, link+"0", link+"1", "db",
			"the listener has gone: |gives no sign of life|the link is being opened: ")
	})
	t.Run("RoCE", func(t *testing.T) {
		if testing.Short() {
			t.Skip("a silent address is given up after 10 s")
		}
		if !alone(t) {
			return
		}
		addAddress(t, "10.66.0.2/24")
		killListener(t, "roce:10.66.0.2", "roce:10.66.0.1", "db@10.66.0.1", "says nothing for 10s; an engine hears of names over RoCE with --link roce:10.66.0.1, because")
	})
}

func killListener(t *testing.T, here, there, name, why string) {
	a, err := Open(Config{Links: []string{here}})
	require.NoError(t, err)
	defer a.Close()
	dialler := named(t, a)
	var list []*QP
	for range dialsToKilled {
		list = append(list, dialler.newQP(t))
	}
	t.Setenv("NICLESS_TEST_LINKS", there)
	e, path := startEngine(t)
	listener := rerun(t, "listener", path)
	require.Equal(t, "listens", listener.line(t))
	require.NoError(t, dialler.WaitName(await.Context(t), name))
	ended := make(chan error, dialsToKilled)
	for _, q := range list {
		go func() {
			_, err := dialler.DialName(await.Context(t), name, q, Connection{})
			ended <- err
		}()
	}
	waiting := func() (n int) {
		a.names.mu.Lock()
		defer a.names.mu.Unlock()
		return len(a.names.dials)
	}
	require.Equal(t, "all wait", listener.line(t))
	require.Equal(t, dialsToKilled, waiting())
	e.kill()
	for range dialsToKilled {
		err := await.Receive(t, "a dial", ended)
		require.Regexp(t, why, err.Error())
		require.False(t, errors.Is(err, ErrRejected))
	}
	require.Zero(t, waiting())
	a.names.mu.Lock()
	require.Empty(t, a.names.ready)
	a.names.mu.Unlock()
	for _, q := range list {
		require.Equal(t, StateINIT, State(q.state.Load()))
	}

	_, path = startEngine(t)
	require.Equal(t, "listens", rerun(t, "acceptor", path).line(t))
	require.NoError(t, dialler.WaitName(await.Context(t), name))
	for i, q := range list {
		to, err := dialler.DialName(await.Context(t), name, q, Connection{}, dialler.mr.Remote("m"))
		require.NoError(t, err)
		dialler.writes(t, q, to, uint64(8*i))
	}
}
