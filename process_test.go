package nicless

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/mapholder"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain runs the tests, or one role if a test has started the test binary again as another
// process.
func TestMain(m *testing.M) {
	switch role := os.Getenv("NICLESS_TEST_ROLE"); role {
	case "":
		os.Exit(m.Run())
	case "engine":
		mode := os.FileMode(0o600)
		if limit, err := strconv.Atoi(os.Getenv("NICLESS_TEST_NOFILE")); err == nil {
			r := unix.Rlimit{Cur: uint64(limit), Max: uint64(limit)}
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
				panic(err)
			}
			mode = 0o666
		}
		cfg := Config{Links: strings.Fields(os.Getenv("NICLESS_TEST_LINKS")), Disclose: os.Getenv("NICLESS_TEST_DISCLOSE")}
		err := Serve(context.Background(), os.Args[1], mode, cfg, func() { fmt.Println("ready") })
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case "once":
		b, err := newPeer(os.Args[1])
		if err == nil {
			err = b.ctx.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "holder":
		fmt.Fprintln(os.Stderr, holder(os.Args[1]))
		os.Exit(1)
	case "connector":
		fmt.Println(connector(os.Args[1]))
		os.Exit(0)
	case "user":
		fmt.Fprintln(os.Stderr, announcesAs(os.Args[1]))
		os.Exit(1)
	case "announcer":
		fmt.Fprintln(os.Stderr, announcer(os.Args[1]))
		os.Exit(1)
	case "listener", "acceptor":
		fmt.Fprintln(os.Stderr, listens(os.Args[1], role == "acceptor"))
		os.Exit(1)
	case "writer":
		if err := writer(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// writer connects to the peer whose descriptor it reads, writes to its memory
// again and again, and never ends.
func writer(path string) error {
	in := json.NewDecoder(os.Stdin)
	var peer Descriptor
	b, err := newPeer(path)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(b.qp.Descriptor()); err != nil {
		return err
	}
	if err := in.Decode(&peer); err != nil {
		return err
	}
	if err := b.qp.Connect(peer, Connection{}); err != nil {
		return err
	}
	far, err := peer.Find("target")
	if err != nil {
		return err
	}
	copy(b.mr.Bytes(), bytes.Repeat([]byte{0x77}, b.mr.Len()))
	var list [16]Completion
	for {
		err := b.qp.PostSend(&SendWR{Op: Write, Flags: Signaled, SGE: []SGE{b.mr.SGE(0, int(far.Length))}, RemoteAddr: far.Addr, RKey: far.RKey})
		if err != nil {
			return err
		}
		n, err := b.cq.Wait(context.Background(), list[:])
		if err != nil {
			return err
		}
		for i := range list[:n] {
			if err := list[i].Err(); err != nil {
				return err
			}
		}
	}
}

// A peer is one end of a connection through an engine process.
type peer struct {
	ctx *Context
	pd  *PD
	mr  *MR
	cq  *CQ
	qp  *QP
}

const targetSize = 1 << 20

func newPeer(path string) (p peer, err error) {
	p.ctx, err = Dial(path)
	if err != nil {
		return p, err
	}
	p.pd, err = p.ctx.AllocPD()
	if err != nil {
		return p, err
	}
	p.mr, err = p.pd.RegisterMemory(targetSize, FullAccess)
	if err != nil {
		return p, err
	}
	p.cq, err = p.ctx.CreateCQ(CQConfig{})
	if err != nil {
		return p, err
	}
	p.qp, err = p.pd.CreateQP(QPConfig{SendCQ: p.cq})
	return p, err
}

// A process is the test binary in a role.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err bytes.Buffer
}

func rerun(t *testing.T, role, path string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], path)}
	p.Env = append(os.Environ(), "NICLESS_TEST_ROLE="+role)
	p.Stderr = &p.err
	in, err := p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.in, p.out = in, bufio.NewReader(out)
	require.NoError(t, p.Start())
	t.Cleanup(p.kill)
	return p
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	require.NoError(t, err, "%s", &p.err)
	return strings.TrimSpace(s)
}

// startEngine runs an engine process and returns its socket.
func startEngine(t *testing.T) (*process, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine")
	e := rerun(t, "engine", path)
	require.Equal(t, "ready", e.line(t))
	return e, path
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	await.Until(t, what, f)
}

// holdings counts what an engine process has open and mapped.
func (p *process) holdings(t *testing.T) [2]int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", p.Process.Pid)
	fds, err := os.ReadDir(dir + "fd")
	require.NoError(t, err)
	maps, err := os.ReadFile(dir + "maps")
	require.NoError(t, err)
	return [2]int{len(fds), strings.Count(string(maps), "memfd:")}
}

// join connects a writer process to p.
func (p peer) join(t *testing.T, path string) *process {
	t.Helper()
	w := rerun(t, "writer", path)
	var d Descriptor
	require.NoError(t, json.Unmarshal([]byte(w.line(t)), &d))
	require.NoError(t, p.qp.Connect(d, Connection{Retry: 1, Timeout: 1}))
	require.NoError(t, json.NewEncoder(w.in).Encode(p.qp.Descriptor(p.mr.Remote("target"))))
	until(t, "the first write", func() bool { return load(p.mr.Bytes()) == 0x77 })
	return w
}

// noMore reports whether an engine holds no more than before. It may hold less: a descriptor
// that the engine was about to close may have been counted before. Three clients that leave
// one each are noticed.
func noMore(now, before [2]int) bool { return now[0] <= before[0] && now[1] <= before[1] }

// A client that is killed in the middle of its transfers leaves nothing in the engine.
// Its peer sees that the client does not answer, and continues with another client.
func TestClientIsKilled(t *testing.T) {
	e, path := startEngine(t)
	before := e.holdings(t)
	p, err := newPeer(path)
	require.NoError(t, err)
	mine := e.holdings(t)
	for range 3 {
		w := p.join(t, path)
		w.kill()
		until(t, "everything of the client is given back", func() bool { return noMore(e.holdings(t), mine) })
		require.NoError(t, p.qp.PostSend(&SendWR{Op: Write, Data: []byte("x")}))
		var c [1]Completion
		n, err := p.cq.Wait(t.Context(), c[:])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.ErrorContains(t, c[0].Err(), "retry")
		require.NoError(t, p.qp.Close())
		clear(p.mr.Bytes())
		p.qp, err = p.pd.CreateQP(QPConfig{SendCQ: p.cq})
		require.NoError(t, err)
	}
	require.NoError(t, p.ctx.Close())
	until(t, "everything is given back", func() bool { return noMore(e.holdings(t), before) })
}

// An engine that serves has a second process, the holder (internal/mapholder). The holder
// lets the engine end even if its memory waits for something. It ends with the engine.
func TestEngineHasAHolder(t *testing.T) {
	e, _ := startEngine(t)
	row := func(pid, name string) string {
		b, _ := os.ReadFile("/proc/" + pid + "/status")
		_, rest, _ := strings.Cut(string(b), "\n"+name+":\t")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	var holder string
	all, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, d := range all {
		name, _ := os.ReadFile("/proc/" + d.Name() + "/comm")
		if string(name) == mapholder.Name+"\n" && row(d.Name(), "PPid") == strconv.Itoa(e.Process.Pid) {
			holder = d.Name()
		}
	}
	require.NotEmpty(t, holder)
	until(t, "it waits", func() bool { return row(holder, "State") == "S (sleeping)" })
	e.kill()
	until(t, "it ends", func() bool { return row(holder, "State") == "" || row(holder, "State")[0] == 'Z' })
}

// When an engine is killed in the middle of transfers, posts, polls and waits report that
// at once, memory is intact, and a new engine can use the same socket path.
func TestEngineIsKilled(t *testing.T) {
	e, path := startEngine(t)
	p, err := newPeer(path)
	require.NoError(t, err)
	w := p.join(t, path)
	idle, err := p.ctx.CreateCQ(CQConfig{})
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() {
		var c [1]Completion
		_, err := idle.Wait(context.Background(), c[:])
		waiting <- err
	}()
	e.kill()
	require.ErrorIs(t, await.Receive(t, "Wait returns", waiting), ErrDeviceGone)
	<-p.ctx.Done()
	require.ErrorIs(t, p.qp.PostSend(&SendWR{Op: Nop}), ErrDeviceGone)
	require.ErrorIs(t, p.qp.PostRecv(&RecvWR{}), ErrDeviceGone)
	var c [1]Completion
	_, err = p.cq.Poll(c[:])
	require.ErrorIs(t, err, ErrDeviceGone)
	_, err = p.ctx.AllocPD()
	require.ErrorIs(t, err, ErrDeviceGone)
	_, err = p.pd.RegisterMemory(10, FullAccess)
	require.ErrorIs(t, err, ErrDeviceGone)
	for i, b := range p.mr.Bytes() {
		if b != 0x77 && b != 0 {
			t.Fatalf("byte %d of the memory is %#x", i, b)
		}
	}
	require.Error(t, w.Wait()) // the other client ends by itself, with an error
	require.Contains(t, w.err.String(), "device is gone")
	for _, f := range []func() error{p.qp.Close, p.cq.Close, p.mr.Close, p.pd.Close, p.ctx.Close} {
		require.NoError(t, f())
	}

	next := rerun(t, "engine", path) // replaces the socket left behind
	require.Equal(t, "ready", next.line(t))
	p, err = newPeer(path)
	require.NoError(t, err)
	p.join(t, path)
	require.NoError(t, p.ctx.Close())
}

func TestDialRefused(t *testing.T) {
	dir := t.TempDir()
	_, err := Dial(filepath.Join(dir, "nobody"))
	require.ErrorContains(t, err, "no engine at")
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Dial(file)
	require.ErrorContains(t, err, "no engine at")
}

// An engine that a user may not use is not taken for a missing one.
func TestDialForbidden(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	require.NoError(t, unix.Listen(fd, 1))
	require.NoError(t, os.Chmod(path, 0))
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // until the thread ends with this goroutine: root becomes another user
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			failed <- err
			return
		}
		_, err := Dial(path)
		failed <- err
	}()
	err = <-failed
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "may not connect to the engine at "+path)
	require.NotContains(t, err.Error(), "no engine")
}

// Serve ends when its context ends. Clients see that at once, and the socket is removed.
func TestServeEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Serve(ctx, path, 0o600, Config{}, func() { close(ready) }) }()
	<-ready
	p, err := newPeer(path)
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-done)
	<-p.ctx.Done()
	require.ErrorIs(t, p.qp.PostSend(&SendWR{Op: Nop}), ErrDeviceGone)
	require.NoError(t, p.ctx.Close())
	require.NoFileExists(t, path)
}

// Serve ends in an orderly way: the work that clients have posted completes, or is flushed
// if it cannot, and clients get their completions before ErrDeviceGone.
func TestServeDrainsAndFlushes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Serve(ctx, path, 0o600, Config{}, func() { close(ready) }) }()
	<-ready
	p, err := newPeer(path)
	require.NoError(t, err)
	require.NoError(t, p.qp.Connect(p.qp.Descriptor(), Connection{}))
	const writes, half = 16, targetSize / 2
	for i := range uint64(writes) {
		far := p.mr.Remote("target")
		require.NoError(t, p.qp.PostSend(&SendWR{ID: i, Op: Write, Flags: Signaled, SGE: []SGE{p.mr.SGE(0, half)}, RemoteAddr: far.Addr + half, RKey: far.RKey}))
	}
	require.NoError(t, p.qp.PostRecv(&RecvWR{ID: 99}))
	cancel()
	require.NoError(t, <-done)
	<-p.ctx.Done()
	var c [writes + 2]Completion
	n, err := p.cq.Poll(c[:])
	require.NoError(t, err)
	require.Equal(t, writes+1, n)
	for i := range uint64(writes) {
		require.Equal(t, i, c[i].ID)
		require.NoError(t, c[i].Err())
	}
	require.Equal(t, uint64(99), c[writes].ID)
	require.ErrorIs(t, c[writes].Err(), cqe.Flush)
	_, err = p.cq.Poll(c[:])
	require.ErrorIs(t, err, ErrDeviceGone)
	require.NoError(t, p.ctx.Close())
}

// load reads the first byte of memory that another process writes.
//
//go:noinline
func load(b []byte) byte { return b[0] }
