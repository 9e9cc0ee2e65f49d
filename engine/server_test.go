package engine

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// serve runs the engine behind a socket until the test ends.
func (r *rig) serve() (path string) {
	r.Helper()
	path = filepath.Join(r.TB.(*testing.T).TempDir(), "s")
	r.serveAt(path, 0o600)
	return path
}

// serveAt is serve at a path that the test has chosen.
func (r *rig) serveAt(path string, mode fs.FileMode) {
	r.Helper()
	l, err := r.e.Listen(path, mode)
	require.NoError(r, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	r.start()
	go func() { done <- l.Serve(ctx) }()
	r.Cleanup(func() {
		cancel()
		require.NoError(r, <-done)
	})
}

// A caller is a client that writes datagrams by hand.
type caller struct {
	*rig
	conn *net.UnixConn
	uar  *shm.Region
	maps []*shm.Region // all that it has mapped
}

// close ends the connection and unmaps what came by it.
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
	require.NoError(r, conn.SetDeadline(time.Now().Add(10*time.Second)))
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

// call sends a request and returns the refusal, if it is one.
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
	require.NoError(c, c.uar.Forget())
}

// mapped maps what a descriptor that came with an answer holds.
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

// region makes a region that can be used.
func (c *caller) region(addr, size uint64) (id uint32, mem *shm.Region) {
	c.Helper()
	id, mem = c.newRegion(size)
	require.NoError(c, mem.Seal())
	require.Nil(c, c.call(control.OpPlaceRegion, &control.Placement{ID: id, Addr: addr}, &control.Empty{}))
	require.NoError(c, mem.Forget())
	return id, mem
}

// ended requires that the engine has closed the connection.
func (c *caller) ended() {
	c.Helper()
	_, _, _, ok := c.answer()
	require.False(c, ok, "the connection goes on")
}

// holdings counts the descriptors and mappings of this process that could be a
// client's.
func holdings(t testing.TB) [2]int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return [2]int{len(fds), strings.Count(string(maps), "memfd:")}
}

// returned waits until the engine holds no more than it held before; it may be
// less, if an earlier test's engine had not closed everything then.
func (r *rig) returned(before [2]int) {
	r.Helper()
	r.until("descriptors and mappings are given back", func() bool {
		now := holdings(r)
		return now[0] <= before[0] && now[1] <= before[1]
	})
}

// settled waits until the engine holds no more than before, and nobody's things.
func (r *rig) settled(before [2]int) {
	r.Helper()
	r.returned(before)
	var left int
	r.e.Do(func() { left = len(r.e.clients) + len(r.e.qps) + len(r.e.cqs) + r.e.keys.used + len(r.e.running) })
	require.Zero(r, left)
}

func TestHandshake(t *testing.T) {
	r := newRig(t, Config{})
	path := r.serve()
	c := r.dial(path)
	refusal := c.call(control.OpAllocPD, &control.Empty{}, &control.PD{})
	require.Equal(t, control.CodeVersion, refusal.Code)
	require.Contains(t, refusal.Text, "before hello")
	bad := hello
	bad.Magic = 0x12345678
	require.Equal(t, control.CodeVersion, c.call(control.OpHello, &bad, &control.Welcome{}).Code)
	bad = hello
	bad.Major++
	refusal = c.call(control.OpHello, &bad, &control.Welcome{})
	require.Equal(t, control.CodeVersion, refusal.Code)
	require.Contains(t, refusal.Text, "3.0")
	require.Equal(t, control.CodeVersion, c.call(control.OpAllocPD, &control.Empty{}, &control.PD{}).Code, "still not greeted")

	c.send(control.Append(nil, control.OpHello, 0, 5, &hello))
	h, payload, fds, ok := c.answer()
	require.True(t, ok)
	require.Equal(t, uint64(5), h.Tag)
	var w control.Welcome
	require.NoError(t, control.Parse(h.Op, payload, &w))
	require.Equal(t, r.e.GUID(), w.GUID)
	require.Len(t, fds, 2)
	// Pages to write, and a page to read only.
	_, err := unix.Mmap(fds[0], 0, int(w.UARPages)*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	_, err = unix.Mmap(fds[1], 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)
	_, err = unix.Mmap(fds[1], 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	for _, fd := range fds {
		require.Error(t, unix.Ftruncate(fd, 0))
		_ = unix.Close(fd)
	}
}

// Requests that were sent before the first answer was read are answered in
// order, each with its tag.
func TestPipelinedRequests(t *testing.T) {
	r := newRig(t, Config{})
	c := r.dial(r.serve())
	c.hello()
	for i := range uint64(20) {
		op := control.OpAllocPD
		if i%3 == 1 {
			op = control.Op(99)
		}
		c.send(control.Append(nil, op, 0, 1000+i, &control.Empty{}))
	}
	for i := range uint64(20) {
		h, _, _, ok := c.answer()
		require.True(t, ok)
		require.Equal(t, 1000+i, h.Tag)
		require.Equal(t, i%3 == 1, h.Flags&control.FlagError != 0)
	}
}

// What is not a datagram of this protocol ends its connection, and no other.
func TestGarbage(t *testing.T) {
	good := control.Append(nil, control.OpAllocPD, 0, 1, &control.Empty{})
	rows := map[string][]byte{
		"one byte":        {1},
		"half a header":   good[:15],
		"size too large":  append(append([]byte{}, good[:4]...), append([]byte{1, 0, 0, 0}, good[8:]...)...),
		"an answer":       control.Append(nil, control.OpAllocPD, control.FlagAnswer, 1, &control.Empty{}),
		"unknown flags":   control.Append(nil, control.OpAllocPD, 0x8000, 1, &control.Empty{}),
		"longer than any": make([]byte, control.MaxMessage+1),
		"far too long":    make([]byte, 20_000),
		"text":            []byte("GET / HTTP/1.1\r\n\r\n"),
	}
	r := newRig(t, Config{})
	path := r.serve()
	other := r.dial(path)
	other.hello()
	before := holdings(t)
	for name, b := range rows {
		for _, greeted := range []bool{false, true} {
			c := r.dial(path)
			if greeted {
				c.hello()
			}
			c.send(b)
			_, _, _, ok := c.answer()
			require.False(t, ok, name)
			c.close()
		}
	}
	r.returned(before)
	require.Nil(t, other.call(control.OpAllocPD, &control.Empty{}, &control.PD{}))
}

// memfd makes a descriptor of size bytes with these seals.
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

// A datagram of no bytes ends its connection, and the descriptors that came
// with it are given back.
func TestEmptyDatagramLeavesNoDescriptor(t *testing.T) {
	r := newRig(t, Config{})
	r.e.refuseRights = false // a kernel before 6.16
	path := r.serve()
	oob := unix.UnixRights(slices.Repeat([]int{memfd(t, 8192, allSeals)}, 12)...)
	// By hand: package unix puts a byte in place of none.
	m := unix.Msghdr{Control: &oob[0]}
	m.SetControllen(len(oob))
	before := holdings(t)
	for _, greeted := range []bool{false, true} {
		c := r.dial(path)
		if greeted {
			c.hello()
		}
		raw, err := c.conn.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			_, _, errno := unix.Syscall(unix.SYS_SENDMSG, fd, reflect.ValueOf(&m).Pointer(), 0)
			require.Zero(t, errno)
		}))
		c.ended()
		c.close()
		r.settled(before)
	}
}

// A client that closes, or says nothing, or does not read its answers, leaves
// nothing behind and holds nobody up.
func TestClientsThatGo(t *testing.T) {
	r := newRig(t, Config{})
	path := r.serve()
	before := holdings(t)
	silent := r.dial(path)
	deaf := r.dial(path)
	deaf.hello()
	require.NoError(t, deaf.conn.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	for { // until both buffers are full
		if _, _, err := deaf.conn.WriteMsgUnix(control.Append(nil, control.Op(99), 0, 1, &control.Empty{}), nil, nil); err != nil {
			break
		}
	}
	c := r.dial(path)
	c.hello()
	var pd control.PD
	require.Nil(t, c.call(control.OpAllocPD, &control.Empty{}, &pd))
	c.region(0x10000, 8192)
	require.Nil(t, c.call(control.OpRegMR, &control.MR{PDN: pd.PDN, Addr: 0x10000, Length: 100}, &control.Key{}))
	var ch control.Channel
	require.Nil(t, c.call(control.OpCreateChannel, &control.Empty{}, &ch))
	var cqn control.CQN
	require.Nil(t, c.call(control.OpCreateCQ, &control.CQ{Buf: 0x10000, DBRec: 0x11000, LogCQE: 6, Channel: ch.ID}, &cqn))
	require.Nil(t, c.call(control.OpCreateQP, &control.QP{PDN: pd.PDN, SendCQN: cqn.CQN, RecvCQN: cqn.CQN, SQ: 0x10000, DBRec: 0x11008, NoReceive: 1}, &control.QPN{}))
	for _, c := range []*caller{silent, deaf, c} {
		c.close()
	}
	r.settled(before)
}

func TestListen(t *testing.T) {
	r := newRig(t, Config{})
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := r.e.Listen(path, 0o640)
	require.NoError(t, err)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), st.Mode().Perm())
	_, err = r.e.Listen(path, 0o600)
	require.ErrorContains(t, err, "another engine")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, l.Serve(ctx))
	require.NoFileExists(t, path)

	// Left behind by an engine that was killed.
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err = r.e.Listen(path, 0o600)
	require.NoError(t, err)
	require.NoError(t, l.Serve(ctx))

	// Not an engine's: it stays.
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	_, err = r.e.Listen(path, 0o600)
	require.ErrorContains(t, err, "not a socket")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "precious", string(b))
	require.NoError(t, os.Remove(path))
	live, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer live.Close()
	_, err = r.e.Listen(path, 0o600)
	require.ErrorContains(t, err, path)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err, "the socket of another program is gone")
	_ = conn.Close()

	_, err = r.e.Listen(filepath.Join(dir, "no", "such", "place"), 0o600)
	require.Error(t, err)
	_, err = r.e.Listen(filepath.Join(dir, strings.Repeat("x", 200)), 0o600)
	require.Error(t, err)
}
