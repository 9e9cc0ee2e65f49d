package nicless

import (
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/stretchr/testify/require"
)

// A slow device holds refusals back until free is closed, as a link does that has to open.
type slow struct {
	device
	refusing chan uint64 // the IDs of their dials; copies come again
	free     chan struct{}
}

func (d *slow) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	if b, ok := req.(*control.BoxMessage); ok && op == control.OpSendMessage {
		if m, err := rendezvous.ParseMessage(b.Value); err == nil && m.Kind == rendezvous.Reject {
			d.refusing <- m.ID
			<-d.free
		}
	}
	return d.device.Call(op, req, ans)
}

// Close refuses a few of those who wait at one time, and meanwhile the Context announces and listens.
func TestCloseOfAListenerWithSlowLinks(t *testing.T) {
	path := inProcess(t, Config{})
	dev, err := dial(path)
	require.NoError(t, err)
	d := &slow{dev, make(chan uint64, 1024), make(chan struct{})}
	c, err := newContext(d, nil)
	require.NoError(t, err)
	defer c.Close()
	l, err := c.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	const waiting = refusedAtOnce + 2
	ended := make(chan error, waiting)
	for range waiting {
		dialler := named(t, dialed(t, path))
		q := dialler.newQP(t)
		go func() {
			to := Announcement{Device: c.Device(), Box: c.names.box}
			_, err := dialler.DialClient(await.Context(t), &to, "db", q, Connection{})
			ended <- err
		}()
	}
	await.Until(t, "all wait", func() bool { return len(l.calls) == waiting })
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	begun := make(map[uint64]bool)
	for len(begun) < refusedAtOnce {
		begun[await.Receive(t, "another refusal begins", d.refusing)] = true
	}
	require.NoError(t, c.Announce([]byte("busy")))
	again, err := c.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	require.Empty(t, closed)
	for len(d.refusing) > 0 {
		begun[<-d.refusing] = true
	}
	require.Len(t, begun, refusedAtOnce, "of which the Context may have to wait")
	close(d.free)
	require.NoError(t, await.Receive(t, "Close", closed))
	for range waiting {
		require.ErrorIs(t, await.Receive(t, "a dialler", ended), ErrRejected)
	}
	require.NoError(t, again.Close())
}
