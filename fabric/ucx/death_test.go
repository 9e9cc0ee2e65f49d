//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// againAfter is after how many looks for a packet it is sent again.
const againAfter = 100

// exchange sends a packet each way. Packets may be lost when a link begins, so it tries until both
// have come.
func exchange(t *testing.T, a, b side, mark byte) {
	t.Helper()
	for _, s := range [][2]side{{a, b}, {b, a}} {
		looked := 0
		await.Until(t, fmt.Sprintf("a packet with the mark %d has come", mark), func() bool {
			if looked%againAfter == 0 {
				s[0].d.send(t, s[0].path, make([]byte, 12), []byte{mark})
			}
			looked++
			for {
				var p packetring.Packet
				ok, err := s[1].d.cfg.Receive.Next(&p)
				require.NoError(t, err)
				if !ok {
					return false
				}
				require.Equal(t, s[1].path, p.Path)
				arrived := len(p.Payload) == 1 && p.Payload[0] == mark
				s[1].d.cfg.Receive.Free()
				if arrived {
					return true
				}
			}
		}, func() any { return s[0].About() }, func() any { return s[1].About() })
	}
}

// receiveOne takes one packet, which must be this.
func receiveOne(t *testing.T, s side, payload []byte) {
	t.Helper()
	var p packetring.Packet
	s.d.receive(t, &p)
	require.Equal(t, payload, p.Payload)
	s.d.cfg.Receive.Free()
}

// The process of either side is killed: the link goes down at both ends, with a reason, and comes
// up again by itself, with the same path numbers.
func TestKilledProcess(t *testing.T) {
	a, b, _ := pair(t, Config{}, Config{})
	exchange(t, a, b, 1)
	for i, s := range []side{a, b, a, b} {
		other := []side{b, a, b, a}[i]
		pid, why := s.Process()
		require.NotZero(t, pid, why)
		s.d.send(t, s.path, make([]byte, 12), make([]byte, 20000)) // perhaps on the way
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		await.Until(t, "another process", func() bool { now, _ := s.Process(); return now != 0 && now != pid })
		require.Equal(t, s.path, upTo(t, s.Carrier, other.d.guid))
		require.Equal(t, other.path, upTo(t, other.Carrier, s.d.guid))
		exchange(t, a, b, byte(i+2))
	}
}

// While there is no process, the port is down, and reports why.
func TestProcessThatIsGone(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nicless-ucx")
	text, err := os.ReadFile(ucxtest.Program(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o700))
	a, b, _ := pair(t, Config{Program: program}, Config{})
	require.NoError(t, os.Remove(program))
	pid, _ := a.Process()
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	await.Until(t, "both ports are down", func() bool { return !a.d.up.Load() && !b.d.up.Load() })
	await.Until(t, "why is known", func() bool { _, why := a.Process(); return why != "" && why != "the process nicless-ucx was killed" })
	_, why := a.Process()
	require.Contains(t, why, "no such file")
	path, ok := a.Route(nic.Address{GUID: 2})
	require.True(t, ok, "the route stays; queue pairs retry")
	require.Equal(t, a.path, path.Number)
	require.NoError(t, os.WriteFile(program, text, 0o700))
	upTo(t, a.Carrier, 2)
	upTo(t, b.Carrier, 1)
	exchange(t, a, b, 9)
}

// A process that stands still is a peer that is dead, after Config.Dead; and when it goes on, the link does.
func TestSilentPeer(t *testing.T) {
	a, b, _ := pair(t, Config{Dead: 300 * time.Millisecond}, Config{Dead: 300 * time.Millisecond})
	pid, _ := b.Process()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	await.Until(t, "the peer is down", func() bool { return !peerUp(a.Carrier, 2) })
	require.Equal(t, "the peer is silent", a.Peers()[0].Why)
	require.False(t, a.d.up.Load())
	require.NoError(t, unix.Kill(pid, unix.SIGCONT))
	await.Until(t, "both are up", func() bool { return peerUp(a.Carrier, 2) && peerUp(b.Carrier, 1) }, func() any { return a.Peers() }, func() any { return b.Peers() })
	exchange(t, a, b, 1)
}

// An engine that starts anew is another peer: the path to its earlier life leads nowhere.
func TestRestartedEngine(t *testing.T) {
	a, b, address := pair(t, Config{}, Config{})
	old := a.path
	require.NoError(t, b.Close())
	require.True(t, b.d.closed.Load())
	await.Until(t, "the peer is down", func() bool { return !peerUp(a.Carrier, 2) })
	require.Equal(t, "the peer has closed the link", a.Peers()[0].Why)
	c := side{}
	c.Carrier, c.d = open(t, 2, Config{Connect: []string{address}})
	c.path, a.path = upTo(t, c.Carrier, 1), upTo(t, a.Carrier, 2)
	require.NotEqual(t, old, a.path)
	a.d.send(t, old, make([]byte, 12), []byte{0xff})
	exchange(t, a, c, 1) // a packet for the old path would have come first, with another mark
	require.Len(t, a.Peers(), 1)
}

// A peer that was there and is not is one peer, not the address at which it was as well.
func TestPeerThatIsGoneIsOne(t *testing.T) {
	a, b, address := pair(t, Config{Name: "one"}, Config{})
	require.NoError(t, a.Close())
	await.Until(t, "an attempt to connect again has failed", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.targets[0].conn == 0 && b.targets[0].pause > 2*firstPause
	})
	peers := b.Peers()
	require.Len(t, peers, 1, "%+v", peers)
	require.Equal(t, []any{"one", uint64(1), false}, []any{peers[0].Name, peers[0].GUID, peers[0].Up})
	c, _ := open(t, 3, Config{Listen: address, Name: "another"}) // in its place
	upTo(t, b.Carrier, 3)
	peers = b.Peers()
	require.Len(t, peers, 2, "two engines: %+v", peers)
	require.NoError(t, c.Close())
	await.Until(t, "both are down", func() bool { return !peerUp(b.Carrier, 3) })
	require.Len(t, b.Peers(), 2)
}

// No engine is at the other end yet: the log says that this is not the end.
func TestNotConnectedIsTriedAgain(t *testing.T) {
	said, address := &record{}, freePort(t)
	c, _ := open(t, 1, Config{Connect: []string{address}, Log: slog.New(slog.NewTextHandler(said, nil))})
	line := regexp.MustCompile(`level=WARN msg="not connected; it is tried again" link=ucx:` + address + " peer=" + address + ` why=".+" within=10s\n`)
	await.Until(t, "it is said", func() bool { return line.MatchString(said.String()) }, func() any { return said.String() })
	open(t, 2, Config{Listen: address})
	upTo(t, c, 2)
}

// The engine's process dies: so does the carrier's.
func TestNoOrphan(t *testing.T) {
	c, _ := open(t, 1, Config{Listen: freePort(t)})
	pid, _ := c.Process()
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	require.NoError(t, unix.Kill(pid, 0))
	raw, err := p.control.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_RDWR) }))
	require.NoError(t, err)
	await.Until(t, "it has ended", func() bool { now, _ := c.Process(); return now != pid })
}

// One sentence says what is missing.
func TestMissing(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"library":  {Config{Library: "/nonexistent/libucp.so.0"}, "UCX cannot be loaded: /nonexistent/libucp.so.0"},
		"function": {Config{Library: "libc.so.6"}, "libc.so.6 has no function ucp_get_version; UCX 1.13 or a later 1.x is needed"},
		"program":  {Config{Program: "/nonexistent/nicless-ucx"}, "the program nicless-ucx"},
		"address":  {Config{Listen: "192.0.2.1:7471"}, "ucx: cannot listen at 192.0.2.1:7471: "},
	} {
		t.Run(name, func(t *testing.T) {
			if test.cfg.Listen == "" {
				test.cfg.Listen = freePort(t)
			}
			d := &testDevice{guid: 1}
			_, err := Open(await.Context(t), d, testConfig(t, test.cfg))
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// The program can be inside this one.
func TestEmbeddedProgram(t *testing.T) {
	text, err := os.ReadFile(ucxtest.Program(t))
	require.NoError(t, err)
	t.Setenv("NICLESS_UCX", "")
	program = text
	defer func() { program = nil }()
	path, release, err := findProgram("")
	require.NoError(t, err)
	defer release()
	require.Contains(t, path, "/fd/")
	open(t, 1, Config{Listen: freePort(t), Program: path})
}

// The program is found as an engine of this command finds it.
func TestHasProgram(t *testing.T) {
	t.Setenv("NICLESS_UCX", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, HasProgram(), "no such file")
	t.Setenv("NICLESS_UCX", "")
	if len(program) == 0 {
		require.ErrorContains(t, HasProgram(), "beside this command")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	beside := filepath.Join(filepath.Dir(exe), programName)
	require.NoError(t, os.WriteFile(beside, nil, 0o700))
	defer os.Remove(beside)
	require.NoError(t, HasProgram())
}
