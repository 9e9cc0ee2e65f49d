package include

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/rendezvous"
)

// flooded is a socket at which the engine has a message for the client whenever that looks for one.
func flooded(t *testing.T, engine, message string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			client, err := l.AcceptUnix()
			if err != nil {
				return
			}
			server, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: engine, Net: "unixpacket"})
			if assert.NoError(t, err) {
				relay(client, server, message)
				_ = server.Close()
			}
			_ = client.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return path
}

// relay carries requests and their answers until the client has gone. It answers those for the next message.
func relay(client, server *net.UnixConn, message string) {
	for {
		request, fds, err := receive(client)
		if err != nil {
			return
		}
		h, _, err := control.ParseHeader(request)
		if err == nil && h.Op == control.OpNextMessage {
			m := &control.BoxMessage{Device: 1, Number: 2, Value: message}
			_, err = client.Write(control.Append(nil, h.Op, control.FlagAnswer, h.Tag, m))
			if err != nil {
				return
			}
			continue
		}
		if send(server, request, fds) != nil {
			return
		}
		answer, fds, err := receive(server)
		if err != nil || send(client, answer, fds) != nil {
			return
		}
	}
}

// receive receives a datagram with the file descriptors that come with it.
func receive(c *net.UnixConn) (b []byte, fds []int, err error) {
	b = make([]byte, control.MaxMessage)
	rights := make([]byte, 256)
	n, size, _, _, err := c.ReadMsgUnix(b, rights)
	if err != nil {
		return nil, nil, err
	}
	list, err := syscall.ParseSocketControlMessage(rights[:size])
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		some, err := syscall.ParseUnixRights(&list[i])
		if err != nil {
			return nil, nil, err
		}
		fds = append(fds, some...)
	}
	return b[:n], fds, nil
}

// send sends a datagram with file descriptors, and closes those.
func send(c *net.UnixConn, b []byte, fds []int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix(b, rights, nil)
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
	return err
}

// Programs that dial and listen see that their time is over, also if there is always another message: one
// that has no form, or is for a name or a dial of which they know nothing.
func TestNamesInAFlood(t *testing.T) {
	each(t, "names", func(t *testing.T, path string) {
		engine := serve(t)
		c, err := nicless.Dial(engine)
		require.NoError(t, err)
		defer c.Close()
		l, err := c.ListenName("go", nicless.ListenConfig{})
		require.NoError(t, err)
		defer l.Close()
		dial := rendezvous.Message{Name: "other", Kind: rendezvous.Dial, ID: 7}
		for what, message := range map[string]string{"dials": string(dial.Append(nil)), "garbage": "\xff"} {
			socket := flooded(t, engine, message)
			out, err := run(t, path, socket, "dial", "go", "50")
			require.Error(t, err, what)
			require.Contains(t, out, `the listener "go" has not accepted in 50 ms`, what)
			out, err = run(t, path, socket, "listen", "c", "50")
			require.Error(t, err, what)
			require.Contains(t, out, `nobody has dialled "c" in 50 ms`, what)
		}
	})
}
