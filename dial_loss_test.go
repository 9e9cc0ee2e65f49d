package nicless

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/stretchr/testify/require"
)

// A lossy device loses messages, doubles them, or has no room for them.
type lossy struct {
	device
	mu     *sync.Mutex                    // held during copies
	copies func(m rendezvous.Message) int // how many of the message are sent; negative: no room
}

func (d *lossy) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	b, ok := req.(*control.BoxMessage)
	if !ok || op != control.OpSendMessage {
		return d.device.Call(op, req, ans)
	}
	m, err := rendezvous.ParseMessage(b.Value)
	if err != nil {
		return control.Reply{}, err
	}
	d.mu.Lock()
	n := d.copies(m)
	d.mu.Unlock()
	if n < 0 {
		return control.Reply{}, control.Errorf(control.CodeBusy, "the link is full")
	}
	for range n {
		if r, err := d.device.Call(op, req, ans); err != nil {
			return r, err
		}
	}
	return control.Reply{}, nil
}

// A connection comes about, once, whichever message is lost the first time, and if all are doubled.
func TestDialNameWithLosses(t *testing.T) {
	path := inProcess(t, Config{})
	for name, lost := range map[string]rendezvous.Kind{"dial": rendezvous.Dial, "accept": rendezvous.Accept, "ready": rendezvous.Ready, "doubled": 0} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := make(map[rendezvous.Kind]int)
			client := func() byName {
				dev, err := dial(path)
				require.NoError(t, err)
				c, err := newContext(&lossy{dev, &mu, func(m rendezvous.Message) int {
					seen[m.Kind]++
					switch {
					case lost == 0:
						return 2
					case m.Kind == lost && seen[lost] == 1:
						return 0
					}
					return 1
				}}, nil)
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return named(t, c)
			}
			listener, dialler := client(), client()
			l, err := listener.ListenName("db", ListenConfig{})
			require.NoError(t, err)
			connectByName(t, l, listener, dialler, "db")
			select {
			case call := <-l.calls:
				t.Errorf("a copy of a Dial is another dial: %v", call.Peer())
			default:
			}
		})
	}
}

// lossyPair returns a listener and a dialler of an engine, whose messages go by what copies says.
func lossyPair(t *testing.T, copies func(m rendezvous.Message) int) (listener, dialler byName) {
	path := inProcess(t, Config{})
	var mu sync.Mutex
	client := func() byName {
		dev, err := dial(path)
		require.NoError(t, err)
		c, err := newContext(&lossy{dev, &mu, copies}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return named(t, c)
	}
	return client(), client()
}

// A link that has no room for Ready at the moment is no error: the next copy of Accept has an answer.
func TestReadyWithoutRoom(t *testing.T) {
	full := 1
	listener, dialler := lossyPair(t, func(m rendezvous.Message) int {
		if m.Kind == rendezvous.Ready && full > 0 {
			full--
			return -1
		}
		return 1
	})
	l, err := listener.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	connectByName(t, l, listener, dialler, "db")
	require.Zero(t, full)
}

// After Accept has returned an error, a dialler that has heard nothing yet is refused, and not connected.
func TestAcceptThatGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	lost := 0
	listener, dialler := lossyPair(t, func(m rendezvous.Message) int {
		if (m.Kind == rendezvous.Accept || m.Kind == rendezvous.Reject) && lost < 1 {
			lost++
			cancel()
			return 0
		}
		return 1
	})
	l, err := listener.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	dialled := make(chan error, 1)
	q := dialler.newQP(t)
	go func() {
		_, err := dialler.DialName(await.Context(t), "db", q, Connection{})
		dialled <- err
	}()
	call, err := l.Accept(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, call.Accept(ctx, listener.newQP(t), Connection{}), context.Canceled)
	err = <-dialled
	require.ErrorIs(t, err, ErrRejected)
	require.ErrorContains(t, err, "it waited for this program no longer: context canceled")
	require.Equal(t, StateINIT, State(q.state.Load()))
}

// Wrong messages to a box have an answer at most, and leave no state.
func TestHostileMessages(t *testing.T) {
	path := inProcess(t, Config{})
	victim, enemy := named(t, dialed(t, path)), named(t, dialed(t, path))
	l, err := victim.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	require.NoError(t, enemy.openBox("test"))
	require.NoError(t, enemy.WaitName(await.Context(t), "db"))
	to, err := enemy.find("test", target{name: "db"})
	require.NoError(t, err)
	send := func(value string) {
		_, err := enemy.call("test", control.OpSendMessage,
			&control.BoxMessage{Device: to.device, Number: to.number, Value: value}, &control.Empty{})
		require.NoError(t, err)
	}
	for _, value := range []string{"", "\x00", "\xff", "\x00\x09aaaaaaaa", "\x02db\x01aaaaaaaa", "\x02db\x01aaaaaaaa\x09\x00", "\x01x\x01aaaaaaab"} {
		send(value)
	}
	for k := rendezvous.Hold; k <= rendezvous.Cancel; k++ {
		m := rendezvous.Message{Kind: k, ID: 77, Body: "x"}
		send(string(m.Append(nil)))
	}
	connectByName(t, l, victim, enemy, "db") // after these, in order
	victim.names.mu.Lock()
	defer victim.names.mu.Unlock()
	require.Len(t, victim.names.calls, 1)
	require.Empty(t, victim.names.ready)
	require.Empty(t, victim.names.dials)
}

// A dial that comes by RoCE finds only names for all, even if its sender has come to know the box.
func TestStrangersKnowABox(t *testing.T) {
	for _, toAll := range []bool{false, true} {
		victim := named(t, dialed(t, inProcess(t, Config{})))
		l, err := victim.ListenName("db", ListenConfig{ToAll: toAll})
		require.NoError(t, err)
		body, err := victim.newQP(t).describe(nil, rendezvous.MaxDialBody)
		require.NoError(t, err)
		m := rendezvous.Message{Name: "db", Kind: rendezvous.Dial, ID: 5, Body: body}
		b := &control.BoxMessage{Device: 123, Number: 3, GID: [16]byte{10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: 7}}
		b.Value = string(m.Append(nil))
		victim.takeMessage(b)
		require.Equal(t, toAll, len(l.calls) == 1)
	}
}

// A dialler that says nothing for as long as one that has ended is passed over, and is not gone for good.
func TestDiallerThatHasEnded(t *testing.T) {
	victim := named(t, dialed(t, inProcess(t, Config{})))
	l, err := victim.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	body, err := victim.newQP(t).describe(nil, rendezvous.MaxDialBody)
	require.NoError(t, err)
	dial := func(id uint64) {
		m := rendezvous.Message{Name: "db", Kind: rendezvous.Dial, ID: id, Body: body}
		victim.takeMessage(&control.BoxMessage{Device: victim.Device(), Number: 3, Value: string(m.Append(nil))})
	}
	next := func() uint64 {
		call, err := l.Accept(await.Context(t))
		require.NoError(t, err)
		return call.key.id
	}
	dial(5)
	dial(6)
	key := callKey{victim.Device(), 3, 5}
	past := time.Now().Add(-silenceMost - time.Second)
	victim.names.calls[key].lastDial.Store(&past)
	require.Equal(t, uint64(6), next())
	dial(5)
	require.Equal(t, uint64(5), next())
}

// A program that listens and announces has both, of one audience, and others read the value alone.
func TestListenAndAnnounce(t *testing.T) {
	path := inProcess(t, Config{})
	a, b := dialed(t, path), dialed(t, path)
	l, err := a.ListenName("db", ListenConfig{})
	require.NoError(t, err)
	require.Empty(t, announced(t, b), "names alone are no announcement")
	require.NoError(t, a.Announce([]byte("value")))
	changed(t, b)
	require.Equal(t, []string{"value"}, announced(t, b))
	require.ErrorContains(t, a.AnnounceToAll([]byte("all")), "this Context cannot announce for one user and listen for all, or the other way")
	_, err = a.ListenName("other", ListenConfig{ToAll: true})
	require.ErrorContains(t, err, `ToAll true; this Context listens as "db" with false`)
	_, err = a.ListenName("db", ListenConfig{})
	require.ErrorIs(t, err, ErrBusy)
	_, err = a.ListenName("other", ListenConfig{Backlog: MaxBacklog + 1})
	require.ErrorContains(t, err, "Backlog 129; 1 to 128 are possible")
	require.ErrorContains(t, a.Announce(make([]byte, MaxAnnouncement)), "1 names, with what the program announces itself, need 500 bytes")
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.NoError(t, a.Announce(make([]byte, MaxAnnouncement)), "the names have gone")
	require.ErrorIs(t, b.WaitName(cancelled(t), "db"), ErrNotFound)
}

// An engine from before boxes refuses with the versions.
func TestNamesNeedBoxes(t *testing.T) {
	c := dialed(t, inProcess(t, Config{}))
	c.limits.Minor = minorBox - 1
	_, err := c.ListenName("db", ListenConfig{})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "the engine's protocol is 2.9; connections by names are since 2.10")
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
