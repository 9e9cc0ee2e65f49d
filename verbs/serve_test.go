package verbs

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// serving runs an engine and a server in a directory, until stop is called or the test ends.
func serving(t *testing.T, devices int) (dir string, stop func()) {
	t.Helper()
	e, err := engine.New(engine.Config{})
	require.NoError(t, err)
	return servingOn(t, e, devices)
}

// servingEngine is serving, for tests that do something to the engine.
func servingEngine(t *testing.T, devices int) (dir string, e *engine.Engine) {
	t.Helper()
	e, err := engine.New(engine.Config{})
	require.NoError(t, err)
	dir, _ = servingOn(t, e, devices)
	return dir, e
}

func servingOn(t *testing.T, e *engine.Engine, devices int) (dir string, stop func()) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "n.verbs")
	running, end := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	started, ready := make(chan struct{}), make(chan struct{})
	ended, served := make(chan error, 1), make(chan error, 1)
	go func() { ended <- e.Run(running, func() { close(started) }) }()
	<-started
	go func() { served <- Serve(ctx, dir, e, Config{Devices: devices}, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-served:
		require.NoError(t, err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-served)
		end()
		require.NoError(t, <-ended)
	}
	t.Cleanup(stop)
	return dir, stop
}

func TestServe(t *testing.T) {
	dir, stop := serving(t, 2)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, "sys/class", name))
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, "6\n", read("infiniband_verbs/abi_version"))
	require.Equal(t, "1\n", read("infiniband_verbs/uverbs1/abi_version"))
	require.Equal(t, "231:193\n", read("infiniband_verbs/uverbs1/dev"))
	require.Equal(t, "nicless1\n", read("infiniband_verbs/uverbs1/ibdev"))
	require.Equal(t, "pci:v000015B3d00001019sv000015B3sd00000008bc02sc00i00\n", read("infiniband/nicless0/device/modalias"))
	require.NotEqual(t, read("infiniband/nicless0/node_guid"), read("infiniband/nicless1/node_guid"))

	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unixpacket"})
	require.NoError(t, err)
	defer conn.Close()
	ask := func(op wireOp, body []byte) (answer []byte, fds []int) {
		d := appendAnswer(nil, wireHeader{op: op, tag: 5}, 0, 0)
		le.PutUint16(d[2:], 0)
		_, err := conn.Write(finish(append(d, body...)))
		require.NoError(t, err)
		b, oob := make([]byte, maxDatagram), make([]byte, 64)
		n, oobn, _, _, err := conn.ReadMsgUnix(b, oob)
		require.NoError(t, err)
		fds, err = unixsock.Descriptors(oob[:oobn])
		require.NoError(t, err)
		for _, fd := range fds {
			t.Cleanup(func() { _ = unix.Close(fd) })
		}
		require.Zero(t, le.Uint32(b[4:]))
		return b[headerSize:n], fds
	}
	welcome, _ := ask(opHello, helloBytes())
	require.Equal(t, uint32(2), le.Uint32(welcome[4:]))
	opened, fds := ask(opOpen, u64s(1))
	require.Len(t, fds, 1)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fds[0], &st))
	require.Equal(t, st.Ino, le.Uint64(opened))
	require.Equal(t, uint32(193), le.Uint32(opened[12:]))

	stop()
	b := make([]byte, 1)
	await.Deadline(t, conn)
	n, err := conn.Read(b)
	require.Zero(t, n)
	require.False(t, os.IsTimeout(err), "the end is reported")
	n, err = unix.Read(fds[0], b)
	require.NoError(t, err)
	require.Zero(t, n, "and at the context")
	require.NoDirExists(t, dir)
}

// A program can connect at no cost, so connections must not fill the log.
func TestConnectionsDoNotFillTheLog(t *testing.T) {
	s := newServing(t)
	var lines atomic.Int64
	s.log = slog.New(slog.NewTextHandler(lineCounter{&lines}, nil))
	const connections, most, window = 1000, 256, 10 * time.Second // at most so many lines in such a time
	begin := time.Now()
	for range connections {
		conn, theirs := connected(t)
		_, err := theirs.Write([]byte{1})
		require.NoError(t, err)
		s.serve(t.Context(), conn)
		_ = theirs.Close()
	}
	require.LessOrEqual(t, lines.Load(), most*(1+int64(time.Since(begin)/window)))
	require.NotZero(t, lines.Load())
	before := lines.Load()
	s.report(uint32(os.Geteuid())+1, nil, slog.LevelWarn, "another user's")
	require.Equal(t, before+1, lines.Load())
}

// The refusals of all programs of one user share one budget in the log. The refusals of
// another user have a budget of their own.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	s := newServing(t)
	var lines atomic.Int64
	s.log = slog.New(slog.NewTextHandler(lineCounter{&lines}, nil))
	refused := refusalOf(refuse(eINVAL, "no"))
	for pid := range int32(50) {
		p := s.newProcess(pid, 1000, nil)
		for range 60 {
			p.reportRefusal(refused)
		}
	}
	require.LessOrEqual(t, lines.Load(), int64(2*128), "of one user, at the turn of ten seconds")
	before := lines.Load()
	s.newProcess(1, 2000, nil).reportRefusal(refused)
	require.Equal(t, before+1, lines.Load())
}

// A watcher gets a limited number of lines about a program in a second.
func TestWatchersAreToldSoMuch(t *testing.T) {
	var b budget
	told := 0
	for range 10 * linesPerSecond {
		if _, ok := b.spend(); ok {
			told++
		}
	}
	require.LessOrEqual(t, told, 2*linesPerSecond)
	b.began = b.began.Add(-time.Second)
	b.left = 3
	more, ok := b.spend()
	require.True(t, ok)
	require.Equal(t, " [3 like it were left out before]", more)
	more, _ = b.spend()
	require.Empty(t, more)
}

type lineCounter struct{ n *atomic.Int64 }

func (c lineCounter) Write(b []byte) (int, error) {
	c.n.Add(1)
	return len(b), nil
}

// A directory of another user, or a link, is not used: another user could choose where files
// are removed and written.
func TestDirectoryOfAnotherUser(t *testing.T) {
	there := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(there, treeName), 0o755))
	mine := filepath.Join(t.TempDir(), "n.verbs")
	require.NoError(t, os.Symlink(there, mine))
	require.ErrorContains(t, makeDirectory(mine), "it has to be a directory of user")
	require.NoError(t, os.Remove(mine))
	require.NoError(t, os.Mkdir(mine, 0o755))
	require.NoError(t, makeDirectory(mine), "left behind")
	require.NoError(t, os.Chmod(mine, 0o777))
	require.ErrorContains(t, makeDirectory(mine), "has mode 040777")
	if os.Getuid() == 0 {
		require.NoError(t, os.Chmod(mine, 0o755))
		require.NoError(t, os.Chown(mine, 1, 1))
		require.ErrorContains(t, makeDirectory(mine), "belongs to user 1 ")
	}
	require.DirExists(t, filepath.Join(there, treeName))
}

// A connection ends if it sends an invalid request. Other connections are not affected.
func TestGarbageEndsTheConnection(t *testing.T) {
	dir, _ := serving(t, 1)
	addr := &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unixpacket"}
	for _, garbage := range [][]byte{{1}, make([]byte, 24), finish(appendAnswer(nil, wireHeader{op: opOpen}, 0, 0)), make([]byte, 200000)} {
		conn, err := net.DialUnix("unixpacket", nil, addr)
		require.NoError(t, err)
		_ = conn.SetWriteBuffer(1 << 20)
		await.Deadline(t, conn)
		_, _ = conn.Write(garbage)
		n, err := conn.Read(make([]byte, 100))
		require.Zero(t, n)
		require.False(t, os.IsTimeout(err))
		_ = conn.Close()
	}
	conn, err := net.DialUnix("unixpacket", nil, addr)
	require.NoError(t, err)
	_ = conn.Close()
}

// The server ends the connection of a program that does not read its answers, because answers
// can bring descriptors and the kernel limits how many descriptors can be unread.
func TestAnswersHaveToBeRead(t *testing.T) {
	dir, _ := serving(t, 1)
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unixpacket"})
	require.NoError(t, err)
	defer conn.Close()
	hello := helloDatagram()
	happens := func(events int16) bool {
		p := []unix.PollFd{{Events: events}}
		require.NoError(t, unixsock.Control(conn, func(fd int) (err error) {
			p[0].Fd = int32(fd)
			for err = unix.EINTR; err == unix.EINTR; { // Go's scheduler sends signals
				_, err = unix.Poll(p, 10_000)
			}
			return err
		}))
		return p[0].Revents&(events|unix.POLLHUP) != 0
	}
	_, err = conn.Write(hello)
	require.NoError(t, err)
	require.True(t, happens(unix.POLLIN), "an answer")
	_, err = conn.Write(hello)
	require.NoError(t, err)
	require.True(t, happens(unix.POLLRDHUP), "the end")
}
