package nicless

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A script answers the requests of a client, in order.
type script struct {
	conn *net.UnixConn
	*client
}

// newScript returns a client of protocol version 2.minor, and the other end of its connection.
func newScript(t *testing.T, minor uint16) script {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fds[1]), "engine")
	conn, err := net.FileConn(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	context.AfterFunc(await.Context(t), func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	t.Cleanup(func() {
		_ = conn.Close()
		_ = unix.Close(fds[0])
	})
	c := &client{dev: &socket{fd: fds[0]}}
	c.limits.Minor = minor
	return script{conn.(*net.UnixConn), c}
}

// next reads a request.
func (s *script) next(t *testing.T) control.Header {
	t.Helper()
	var b [control.MaxMessage]byte
	n, err := s.conn.Read(b[:])
	require.NoError(t, err)
	h, _, err := control.ParseHeader(b[:n])
	require.NoError(t, err)
	return h
}

// answer executes a request, or refuses it if text is not empty.
func (s *script) answer(t *testing.T, h control.Header, text string) {
	t.Helper()
	b := control.Append(nil, h.Op, control.FlagAnswer, h.Tag, &control.Empty{})
	if text != "" {
		b = control.Append(nil, h.Op, control.FlagAnswer|control.FlagError, h.Tag, control.Errorf(control.CodeState, "%s", text))
	}
	_, err := s.conn.Write(b)
	require.NoError(t, err)
}

// three are requests that a client makes at once.
func three() (list []linkedRequest) {
	for i := range uint32(3) {
		list = append(list, linkedRequest{control.OpDeallocPD, &control.PD{PDN: i}})
	}
	return list
}

// A client sends requests that are linked to each other before it reads the first answer, reports the first
// refusal, and how many requests came before it. The next call gets its own answer.
func TestLinkedRequestsAreSentAtOnce(t *testing.T) {
	for refused := range 4 { // 3: none
		t.Run(fmt.Sprint(refused), func(t *testing.T) {
			s := newScript(t, minorLinked)
			want := fmt.Sprint("no ", refused)
			if refused == 3 {
				want = "<nil>"
			}
			ended := make(chan error, 1)
			go func() {
				done, err := s.callLinked(three())
				if done != refused || fmt.Sprint(err) != want {
					ended <- fmt.Errorf("%d requests were executed, and then: %w", done, err)
					return
				}
				_, err = s.call("more", control.OpDeallocPD, &control.PD{}, &control.Empty{})
				ended <- err
			}()
			var list [3]control.Header
			for i := range list {
				list[i] = s.next(t)
				require.Equal(t, i > 0, list[i].Flags == control.FlagLinked)
			}
			for i, h := range list {
				text := ""
				if i >= refused {
					text = fmt.Sprint("no ", i)
				}
				s.answer(t, h, text)
			}
			s.answer(t, s.next(t), "")
			require.NoError(t, <-ended)
		})
	}
}

// If the engine takes only the first of several requests, nobody knows which of them it executes: the
// connection ends.
func TestPartlySentRequestsEndTheConnection(t *testing.T) {
	s := newScript(t, minorLinked)
	fd := s.dev.(*socket).fd
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1)) // the kernel's least
	require.NoError(t, unix.SetNonblock(fd, true))                                 // no wait for room
	var list []linkedRequest
	for range 100 {
		list = append(list, three()...)
	}
	done, err := s.callLinked(list)
	require.ErrorIs(t, err, ErrDeviceGone)
	require.Zero(t, done)

	h := s.next(t)
	require.Equal(t, control.OpDeallocPD, h.Op, "the first was sent")
	_, err = s.conn.Write(control.Append(nil, h.Op, control.FlagAnswer, h.Tag, &control.Empty{}))
	require.ErrorIs(t, err, unix.EPIPE)
	_, err = s.call("more", control.OpAllocPD, &control.Empty{}, &control.Empty{})
	require.ErrorIs(t, err, ErrDeviceGone)
}

// An engine that knows no linked requests gets one at a time, and none after one that it has refused.
func TestOlderEnginesGetRequestsOneByOne(t *testing.T) {
	s := newScript(t, minorLinked-1)
	ended := make(chan error, 1)
	go func() {
		done, err := s.callLinked(three())
		if done != 1 || err == nil || err.Error() != "no 1" {
			ended <- fmt.Errorf("%d requests were executed, and then: %w", done, err)
			return
		}
		_, err = s.call("more", control.OpAllocPD, &control.Empty{}, &control.Empty{})
		ended <- err
	}()
	for _, text := range []string{"", "no 1"} {
		h := s.next(t)
		require.Zero(t, h.Flags)
		s.answer(t, h, text)
	}
	h := s.next(t)
	require.Equal(t, control.OpAllocPD, h.Op, "the third request is not sent")
	s.answer(t, h, "")
	require.NoError(t, <-ended)
}

// A watched is a connection to an engine that notes what the client requests.
type watched struct {
	*socket
	calls  []control.Op
	linked [][]linkedRequest
}

func (w *watched) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	w.calls = append(w.calls, op)
	return w.socket.Call(op, req, ans)
}

func (w *watched) callLinked(list []linkedRequest) (int, error) {
	w.linked = append(w.linked, list)
	return w.socket.callLinked(list)
}

// Connect waits for the engine once. If it is refused, the error is that of the transition, with its rule.
func TestConnectWaitsOnce(t *testing.T) {
	c, err := Dial(inProcess(t, Config{}))
	require.NoError(t, err)
	defer c.Close()
	pd, err := c.AllocPD()
	require.NoError(t, err)
	cq, err := c.CreateCQ(CQConfig{})
	require.NoError(t, err)
	q, err := pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	peer := q.Descriptor() // itself
	w := &watched{socket: c.client.dev.(*socket)}
	c.client.dev = w
	require.NoError(t, q.Connect(peer, Connection{}))
	require.Empty(t, w.calls)
	require.Len(t, w.linked, 1)
	require.Len(t, w.linked[0], 2)
	require.Equal(t, StateRTS, State(q.state.Load()))

	require.ErrorContains(t, q.Connect(peer, Connection{}), "connected already")
	require.Equal(t, StateRTS, State(q.state.Load()))
	require.NoError(t, q.Modify(&Attr{Mask: AttrState, State: StateERR}))
	require.ErrorContains(t, q.Connect(peer, Connection{}), "is in error")
	require.Equal(t, StateERR, State(q.state.Load()))
}
