package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A role is a process that a test has started, as a user would.
type role struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// start starts a role and returns when the process has reported that it is ready.
func (p place) start(t *testing.T, args ...string) *role {
	t.Helper()
	r := &role{cmd: p.command(t, args...)}
	r.cmd.Stderr = &r.stderr
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, &r.stderr)
	return r
}

func (p place) engine(t *testing.T) *role {
	t.Helper()
	return p.start(t, "-role", "engine", "-socket", "engine.sock")
}

func (p place) receiver(t *testing.T) *role {
	t.Helper()
	return p.start(t, "-role", "recv", "-socket", "engine.sock", "-peer", "peer.sock", "-out", "out", "-chunk", "4096")
}

func (r *role) wait() result {
	_ = r.cmd.Wait()
	return result{r.cmd.ProcessState.ExitCode(), "", r.stderr.String()}
}

func (r *role) end(t *testing.T) {
	t.Helper()
	require.NoError(t, r.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, result{}, r.wait())
}

func TestRoles(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 500_000)
	engine := p.engine(t)
	for range 2 {
		recv := p.receiver(t)
		r := p.run(t, "-role", "send", "-socket", "engine.sock", "-peer", "peer.sock", "-in", in)
		require.Zero(t, r.code, r.stderr)
		assert.Equal(t, result{}, recv.wait())
		requireContent(t, p.path("out"), content(500_000))
		require.NoError(t, os.Remove(p.path("out")))
	}
	r := p.run(t, "-in", in, "-out", "out", "-socket", "engine.sock")
	require.Zero(t, r.code, r.stderr)
	assert.NotContains(t, r.out, "engine, pid")
	engine.end(t)
	assert.Equal(t, []string{"in", "out"}, list(t, p.dir), "sockets left behind")
}

// TestEndWhileWaiting ends the engine or the receiver while the receiver waits for a sender.
func TestEndWhileWaiting(t *testing.T) {
	p := newPlace(t)
	engine := p.engine(t)
	recv := p.receiver(t)
	require.NoError(t, recv.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, result{1, "", "filecopy: error: terminated signal received\n"}, recv.wait())
	recv = p.receiver(t)
	engine.end(t)
	assert.Equal(t, result{1, "", "filecopy: error: the engine has stopped\n"}, recv.wait())
	assert.Empty(t, list(t, p.dir))
}

func TestSockets(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 1000)
	stream, err := net.Listen("unix", p.path("stream.sock"))
	require.NoError(t, err)
	defer stream.Close()
	engine := p.engine(t)
	for _, c := range []struct{ name, args, stderr string }{
		{"no engine", "-in in -out out -socket missing.sock",
			"filecopy: error: nicless: no engine at missing.sock: dial unixpacket missing.sock: connect: no such file or directory\n" +
				"filecopy: hint: start one: filecopy -role engine -socket missing.sock\n"},
		{"engine's socket of another kind", "-in in -out out -socket stream.sock",
			"filecopy: error: nicless: stream.sock is a socket of another kind, not an engine's (SOCK_SEQPACKET)\n"},
		{"engine's socket taken", "-role engine -socket engine.sock",
			fmt.Sprintf("filecopy: error: server: another engine is listening at engine.sock: process %d of user %d, %q, holds engine.sock.lock\n",
				engine.cmd.Process.Pid, os.Geteuid(), fmt.Sprintf("%.80s", os.Args[0]+" -role engine -socket engine.sock"))},
		{"engine's socket a file", "-role engine -socket in",
			"filecopy: error: server: in exists and is not a socket\n"},
		{"no receiver", "-role send -socket engine.sock -peer missing.sock -in in",
			"filecopy: error: no receiver at missing.sock: dial unix missing.sock: connect: no such file or directory\n" +
				"filecopy: hint: start it first: filecopy -role recv\n"},
		{"receiver's socket of another kind", "-role send -socket engine.sock -peer engine.sock -in in",
			"filecopy: error: engine.sock is a socket of another kind, not a receiver's\n"},
		{"receiver's socket taken", "-role recv -socket engine.sock -peer stream.sock -out out",
			"filecopy: error: listen unix stream.sock: bind: address already in use\n" +
				"filecopy: hint: remove stream.sock if no other receiver is there\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, result{1, "", c.stderr}, p.run(t, strings.Fields(c.args)...))
		})
	}
	assert.NoFileExists(t, p.path("out"))
	requireContent(t, in, content(1000))
	engine.end(t)
}

// TestNonsense connects to sender and receiver with a peer that is not filecopy.
func TestNonsense(t *testing.T) {
	p := newPlace(t)
	p.input(t, 1000)
	engine := p.engine(t)
	for _, c := range []struct{ say, err string }{
		{"", "the %s has gone away\n"},
		{"HTTP/1.1 400 Bad Request\r\n\r\n", "the %s does not speak as filecopy does: invalid character 'H' looking for beginning of value\n"},
		{`{"filecopy":9}`, "the %s speaks version 9 of filecopy; this is version 1\n"},
		{`{"filecopy":1}`, "the %s has not described its queue pair\n"},
		{`{"filecopy":1,"qp":{"version":1,"device":"1","qpn":16777216}}`, "the %s does not speak as filecopy does: descriptor: QPN 0x1000000, PSN 0x0; 24 bits are possible\n"},
		{`{"filecopy":1,"error":"of its own"}`, "%s: of its own\n"},
		{`{"filecopy":1,` + strings.Repeat(" ", 70_000), "the %s has gone away\n"},
	} {
		recv := p.receiver(t)
		conn, err := net.Dial("unix", p.path("peer.sock"))
		require.NoError(t, err)
		_, _ = io.WriteString(conn, c.say)
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		assert.Equal(t, result{1, "", "filecopy: error: " + strings.ReplaceAll(c.err, "%s", "sender")}, recv.wait())
		conn.Close()

		ln, err := net.Listen("unix", p.path("peer.sock"))
		require.NoError(t, err)
		go func() {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 1000))
			_, _ = io.WriteString(conn, c.say)
		}()
		r := p.run(t, "-role", "send", "-socket", "engine.sock", "-peer", "peer.sock", "-in", "in")
		assert.Equal(t, result{1, "", "filecopy: error: " + strings.ReplaceAll(c.err, "%s", "receiver")}, r)
		ln.Close()
	}
	assert.NoFileExists(t, p.path("out"))
	engine.end(t)
}

// TestLies uses a sender that is correct except for one wrong action.
func TestLies(t *testing.T) {
	p := newPlace(t)
	engine := p.engine(t)
	data := content(100_000)
	sum := sha256.Sum256(data)
	wrong := sum
	wrong[31] ^= 1
	for _, c := range []struct {
		name string
		lie  func(s *sender, end nicless.RemoteMemory) error
		err  string
		code int
	}{
		{"none", func(s *sender, end nicless.RemoteMemory) error { return s.finish(end, 100_000, sum[:]) }, "", 0},
		{"hash", func(s *sender, end nicless.RemoteMemory) error { return s.finish(end, 100_000, wrong[:]) }, "wrong bytes: %sSHA-256 is ", 3},
		{"length", func(s *sender, end nicless.RemoteMemory) error { return s.finish(end, 99_999, sum[:]) },
			"repeated: %sthe sender sent 99999 bytes, 100000 arrived", 3},
		{"greater length", func(s *sender, end nicless.RemoteMemory) error { return s.finish(end, 100_001, sum[:]) },
			"lost: %sthe sender sent 100001 bytes, 100000 arrived", 3},
		{"order", func(s *sender, end nicless.RemoteMemory) error {
			return s.qp.PostSend(&nicless.SendWR{Op: nicless.WriteImm, Imm: 99})
		}, "lost: %schunk 99 came, 25 was next", 3},
		{"twice", func(s *sender, end nicless.RemoteMemory) error {
			return s.qp.PostSend(&nicless.SendWR{Op: nicless.WriteImm, Imm: 24})
		}, "repeated: %schunk 24 came, 25 was next", 3},
		{"size", func(s *sender, end nicless.RemoteMemory) error {
			return s.qp.PostSend(&nicless.SendWR{Op: nicless.WriteImm, Imm: 25, RemoteAddr: s.remote.Addr, RKey: s.remote.RKey,
				SGE: []nicless.SGE{s.ring.SGE(0, 4097)}})
		}, "wrong bytes: %sthe sender wrote 4097 bytes as chunk 25; a slot has 4096", 3},
		{"overrun", func(s *sender, end nicless.RemoteMemory) error {
			return s.qp.PostSend(&nicless.SendWR{Op: nicless.WriteImm, Imm: 25, RemoteAddr: s.remote.Addr + 1, RKey: s.remote.RKey,
				SGE: []nicless.SGE{s.ring.SGE(0, s.ring.Len())}})
		}, "the sender has gone away", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			recv := p.receiver(t)
			n, err := dialEngine(p.path("engine.sock"), "sender")
			require.NoError(t, err)
			defer n.Close()
			conn, err := net.Dial("unix", p.path("peer.sock"))
			require.NoError(t, err)
			defer conn.Close()
			l := newLink(conn, "receiver")
			s, end, err := join(t.Context(), n, l)
			require.NoError(t, err)
			_, err = s.stream(bytes.NewReader(data), sha256.New(), newBar(-1))
			require.NoError(t, err)
			require.NoError(t, c.lie(s, end))
			if c.name == "overrun" { // the device refuses the write, and this side closes the stream
				for s.wait() == nil {
				}
				conn.Close()
			}
			m, err := l.receive()
			got := recv.wait()
			if c.err == "" {
				require.NoError(t, err)
				assert.Len(t, m.SHA256, 64)
				assert.Equal(t, result{}, got)
				require.NoError(t, os.Remove(p.path("out")))
				return
			}
			assert.Equal(t, c.code, got.code)
			assert.Contains(t, got.stderr, "filecopy: error: "+strings.ReplaceAll(c.err, "%s", ""))
			if c.name != "overrun" {
				assert.ErrorContains(t, err, strings.ReplaceAll(c.err, "%s", "receiver: "), "what the sender is told")
			}
			assert.NoFileExists(t, p.path("out"))
		})
	}
	engine.end(t)
}

// TestLyingReceiver uses a receiver that reports another SHA-256 than that of the file.
func TestLyingReceiver(t *testing.T) {
	p := newPlace(t)
	p.input(t, 100_000)
	engine := p.engine(t)
	n, err := dialEngine(p.path("engine.sock"), "sender")
	require.NoError(t, err)
	defer n.Close()
	ln, err := net.Listen("unix", p.path("peer.sock"))
	require.NoError(t, err)
	defer ln.Close()
	told := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			told <- err
			return
		}
		defer conn.Close()
		l := newLink(conn, "sender")
		// The receiver takes the file correctly and discards it.
		null, err := os.Create(p.path("taken"))
		if err != nil {
			told <- err
			return
		}
		if _, err := takeFile(context.Background(), &target{null, p.path("kept")}, n, l, 4096); err != nil {
			told <- err
			return
		}
		told <- l.send(message{SHA256: strings.Repeat("0", 64)})
	}()
	r := p.run(t, "-role", "send", "-socket", "engine.sock", "-peer", "peer.sock", "-in", "in")
	require.NoError(t, <-told)
	assert.Equal(t, 3, r.code)
	assert.Regexp(t, `^filecopy: error: wrong bytes: SHA-256 is [0-9a-f]{64} here and 0{64} at the receiver\n$`, r.stderr)
	engine.end(t)
}
