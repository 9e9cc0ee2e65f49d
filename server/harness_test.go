package server

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A rig is an engine with servers.
type rig struct {
	testing.TB
	e *engine.Engine
	d nic.Device
	// Ends when the test has waited too long; one for all connections, because each looks at all processes.
	patience context.Context
}

func newRig(t testing.TB, cfg engine.Config) *rig {
	t.Helper()
	e, err := engine.New(cfg)
	require.NoError(t, err)
	r := &rig{TB: t, e: e, d: nic.Of(e), patience: await.Context(t)}
	_ = r.d.Prepare() // must come before a test counts descriptors
	return r
}

// start runs the engine until the test ends.
func (r *rig) start() {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- r.e.Run(ctx, func() { close(started) }) }()
	<-started
	r.Cleanup(func() {
		cancel()
		require.NoError(r, <-done)
	})
}

// until calls f again and again until it reports true.
func (r *rig) until(what string, f func() bool) {
	r.Helper()
	await.Until(r, what, f)
}

func (r *rig) held() nic.Holdings { return r.d.(nic.Probe).Held() }

func (r *rig) bound(b nic.Bounds) { r.d.(nic.Probe).Bound(b) }

// charged reports whether exactly c is counted for all users together.
func (r *rig) charged(c nic.Cost) bool {
	h := r.held()
	return h.Cost == c && !h.Other
}

// serve runs the engine and a server until the test ends.
func (r *rig) serve() (path string) {
	r.Helper()
	path = filepath.Join(r.TB.(*testing.T).TempDir(), "s")
	r.serveAt(path, 0o600)
	return path
}

// serveAt is serve at a path that the test has chosen.
func (r *rig) serveAt(path string, mode fs.FileMode) {
	r.Helper()
	r.serveBy(r.listen(path, mode))
}

// serveBy is serve with a listener that the test has made.
func (r *rig) serveBy(l *Listener) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	r.start()
	go func() { done <- l.Serve(ctx) }()
	r.Cleanup(func() {
		cancel()
		require.NoError(r, <-done)
	})
}

func (r *rig) listen(path string, mode fs.FileMode) *Listener {
	r.Helper()
	l, err := Listen(r.e, path, mode)
	require.NoError(r, err)
	return l
}

// oldKernel makes a listener accept descriptors, as it does before Linux 6.16, where the kernel
// cannot refuse them.
func (l *Listener) oldKernel() *Listener {
	_ = unixsock.PassRights(l.socket, true) // an error means that this kernel cannot refuse them anyway
	return l
}

// A caller is a client that writes datagrams by hand.
type caller struct {
	*rig
	conn *net.UnixConn
	uar  *shm.Region
	maps []*shm.Region // all regions that it has mapped
}

// close ends the connection and unmaps the memory that came with answers.
func (c *caller) close() {
	_ = c.conn.Close()
	for _, mem := range c.maps {
		_ = mem.Close()
	}
}

func (r *rig) dial(path string) *caller {
	r.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(r, err)
	context.AfterFunc(r.patience, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	c := &caller{rig: r, conn: conn}
	r.Cleanup(c.close)
	return c
}

func (c *caller) send(b []byte, fds ...int) {
	c.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := c.conn.WriteMsgUnix(b, oob, nil)
	require.NoError(c, err)
}

// answer returns the next answer and the descriptors that came with it; ok is
// false when the connection has ended.
func (c *caller) answer() (h control.Header, payload []byte, fds []int, ok bool) {
	c.Helper()
	var b [control.MaxMessage]byte
	var oob [64]byte
	n, oobn, _, _, err := c.conn.ReadMsgUnix(b[:], oob[:])
	if n == 0 || err != nil {
		require.NotErrorIs(c, err, os.ErrDeadlineExceeded)
		return h, nil, nil, false
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	require.NoError(c, err)
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		require.NoError(c, err)
		fds = append(fds, got...)
	}
	h, payload, err = control.ParseHeader(b[:n])
	require.NoError(c, err)
	return h, append([]byte(nil), payload...), fds, true
}

// call sends a request and parses the answer into ans. If the answer is a refusal, it returns
// the refusal.
func (c *caller) call(op control.Op, req, ans control.Message, fds ...int) *control.Error {
	c.Helper()
	c.send(control.Append(nil, op, 0, 77, req), fds...)
	h, payload, got, ok := c.answer()
	require.True(c, ok, "%v: no answer", op)
	for _, fd := range got {
		_ = unix.Close(fd)
	}
	require.Equal(c, control.Header{Op: op, Flags: h.Flags, Size: uint32(len(payload)), Tag: 77}, h)
	if h.Flags&control.FlagError != 0 {
		e := new(control.Error)
		require.NoError(c, control.Parse(op, payload, e))
		return e
	}
	require.Equal(c, control.FlagAnswer, h.Flags)
	require.NoError(c, control.Parse(op, payload, ans))
	return nil
}

var hello = control.Hello{Magic: control.Magic, Major: control.Major, Name: "caller"}

// hello greets the device, maps the UAR pages and seals them.
func (c *caller) hello() {
	c.Helper()
	c.send(control.Append(nil, control.OpHello, 0, 1, &hello))
	_, _, fds, ok := c.answer()
	require.True(c, ok)
	require.Len(c, fds, 2)
	_ = unix.Close(fds[1])
	c.uar = c.mapped(fds[0])
	require.NoError(c, c.uar.Seal())
	require.NoError(c, c.uar.CloseFile())
}

// mapped maps memory whose descriptor came with an answer, and closes the descriptor
// when the memory is released.
func (c *caller) mapped(fd int) *shm.Region {
	c.Helper()
	mem, err := shm.Attach(os.NewFile(uintptr(fd), "shared"), false)
	require.NoError(c, err)
	c.maps = append(c.maps, mem)
	return mem
}

// newRegion makes a region and maps it.
func (c *caller) newRegion(size uint64) (id uint32, mem *shm.Region) {
	c.Helper()
	c.send(control.Append(nil, control.OpCreateRegion, 0, 1, &control.RegionSize{Size: size}))
	h, payload, fds, ok := c.answer()
	require.True(c, ok)
	require.Equal(c, control.FlagAnswer, h.Flags, "%s", payload)
	var region control.RegionID
	require.NoError(c, control.Parse(h.Op, payload, &region))
	require.Len(c, fds, 1)
	return region.ID, c.mapped(fds[0])
}

// region makes a region and places it at addr.
func (c *caller) region(addr, size uint64) (id uint32, mem *shm.Region) {
	c.Helper()
	id, mem = c.newRegion(size)
	require.NoError(c, mem.Seal())
	require.Nil(c, c.call(control.OpPlaceRegion, &control.Placement{ID: id, Addr: addr}, &control.Empty{}))
	require.NoError(c, mem.CloseFile())
	return id, mem
}

// ended requires that the engine has closed the connection.
func (c *caller) ended() {
	c.Helper()
	_, _, _, ok := c.answer()
	require.False(c, ok, "the connection goes on")
}

// holdings counts the descriptors of this process, and its mappings of shared memory.
func holdings(t testing.TB) [2]int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return [2]int{len(fds), strings.Count(string(maps), "memfd:")}
}

// returned waits until this process has no more descriptors and mappings than before. It may have
// fewer, if the engine of an earlier test had not closed everything when before was counted.
func (r *rig) returned(before [2]int) {
	r.Helper()
	r.until("descriptors and mappings are given back", func() bool {
		now := holdings(r)
		return now[0] <= before[0] && now[1] <= before[1]
	})
}

// settled does what returned does, and also requires that the engine holds nothing for a client.
func (r *rig) settled(before [2]int) {
	r.Helper()
	r.returned(before)
	h := r.held()
	require.Empty(r, h.Clients)
	require.Zero(r, h.Objects)
}

// memfd makes sealed memory of size bytes.
func memfd(t testing.TB, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Ftruncate(fd, size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	return fd
}

const allSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// pair returns the two ends of a connection.
func pair(t *testing.T) (server, client *net.UnixConn) {
	t.Helper()
	a, b, err := unixsock.Pair("end")
	require.NoError(t, err)
	connection := func(f *os.File) *net.UnixConn {
		conn, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		t.Cleanup(func() { _ = conn.Close() })
		return conn.(*net.UnixConn)
	}
	return connection(a), connection(b)
}
