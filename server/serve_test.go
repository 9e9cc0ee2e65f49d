package server

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestHandshake(t *testing.T) {
	r := newRig(t, engine.Config{})
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
	// The UAR pages can be mapped for writing, the status page for reading only.
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
	r := newRig(t, engine.Config{})
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

// A request that is linked to one that was refused is refused, too, and not executed, and so are those that
// are linked to it. After a request that was executed, a linked one is executed.
func TestLinkedRequests(t *testing.T) {
	r := newRig(t, engine.Config{})
	c := r.dial(r.serve())
	c.hello()
	unknown := control.Op(99)
	rows := []struct {
		op      control.Op
		flags   uint16
		refused control.Code // 0: executed
	}{
		{control.OpAllocPD, control.FlagLinked, 0}, // to hello
		{control.OpAllocPD, control.FlagLinked, 0},
		{unknown, control.FlagLinked, control.CodeUnsupported},
		{control.OpAllocPD, control.FlagLinked, control.CodeState},
		{control.OpAllocPD, control.FlagLinked, control.CodeState},
		{control.OpAllocPD, 0, 0},
		{control.OpAllocPD, control.FlagLinked, 0},
		{unknown, 0, control.CodeUnsupported},
		{control.OpAllocPD, 0, 0},
	}
	for i, row := range rows {
		c.send(control.Append(nil, row.op, row.flags, uint64(i), &control.Empty{}))
	}
	var last control.PD
	executed := uint32(0)
	for i, row := range rows {
		h, payload, _, ok := c.answer()
		require.True(t, ok)
		require.Equal(t, row.op, h.Op)
		require.Equal(t, uint64(i), h.Tag)
		if row.refused != 0 {
			require.Equal(t, control.FlagAnswer|control.FlagError, h.Flags)
			var e control.Error
			require.NoError(t, control.Parse(h.Op, payload, &e))
			require.Equal(t, row.refused, e.Code, e.Text)
			continue
		}
		require.Equal(t, control.FlagAnswer, h.Flags, i)
		require.NoError(t, control.Parse(h.Op, payload, &last))
		executed++
		require.Equal(t, executed, last.PDN, "those that were refused have made no domain")
	}
}

// A datagram that is not of this protocol ends its connection. Other connections go on.
func TestGarbage(t *testing.T) {
	good := control.Append(nil, control.OpAllocPD, 0, 1, &control.Empty{})
	rows := map[string][]byte{
		"one byte":        {1},
		"half a header":   good[:15],
		"size too large":  append(append([]byte{}, good[:4]...), append([]byte{1, 0, 0, 0}, good[8:]...)...),
		"an answer":       control.Append(nil, control.OpAllocPD, control.FlagAnswer, 1, &control.Empty{}),
		"a linked answer": control.Append(nil, control.OpAllocPD, control.FlagAnswer|control.FlagLinked, 1, &control.Empty{}),
		"unknown flags":   control.Append(nil, control.OpAllocPD, 0x8000, 1, &control.Empty{}),
		"longer than any": make([]byte, control.MaxMessage+1),
		"far too long":    make([]byte, 20_000),
		"text":            []byte("GET / HTTP/1.1\r\n\r\n"),
	}
	r := newRig(t, engine.Config{})
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

// A datagram of no bytes ends its connection, and the descriptors that came with it are
// closed.
func TestEmptyDatagramLeavesNoDescriptor(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := filepath.Join(t.TempDir(), "s")
	r.serveBy(r.listen(path, 0o600).oldKernel())
	oob := unix.UnixRights(slices.Repeat([]int{memfd(t, 8192, allSeals)}, 12)...)
	// This calls sendmsg directly, because package unix sends one byte in place of none.
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
		runtime.KeepAlive(&m)
		c.ended()
		c.close()
		r.settled(before)
	}
}

// A client that is silent, does not read its answers, or closes in the middle of its work leaves
// nothing behind and delays no other client.
func TestClientsThatGo(t *testing.T) {
	r := newRig(t, engine.Config{})
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
	r := newRig(t, engine.Config{})
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := Listen(r.e, path, 0o640)
	require.NoError(t, err)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), st.Mode().Perm())
	_, err = Listen(r.e, path, 0o600)
	require.ErrorContains(t, err, "another engine")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, l.Serve(ctx))
	require.NoFileExists(t, path)

	// A socket like one that a killed engine has left.
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err = Listen(r.e, path, 0o600)
	require.NoError(t, err)
	require.NoError(t, l.Serve(ctx))

	// A file that is not an engine's socket is not removed.
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	_, err = Listen(r.e, path, 0o600)
	require.ErrorContains(t, err, "not a socket")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "precious", string(b))
	require.NoError(t, os.Remove(path))
	live, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer live.Close()
	_, err = Listen(r.e, path, 0o600)
	require.ErrorContains(t, err, path)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err, "the socket of another program is gone")
	_ = conn.Close()

	_, err = Listen(r.e, filepath.Join(dir, "no", "such", "place"), 0o600)
	require.Error(t, err)
	_, err = Listen(r.e, filepath.Join(dir, strings.Repeat("x", 200)), 0o600)
	require.Error(t, err)
}

// A server that listens holds the lock of its path.
func TestListenTakesTheLock(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := filepath.Join(t.TempDir(), "s")
	l := r.listen(path, 0o600)
	_, err := Listen(r.e, path, 0o600)
	require.ErrorContains(t, err, "server: another engine is listening at "+path+": process "+strconv.Itoa(os.Getpid()))
	l.close()
	require.NoFileExists(t, path+".lock")
	l = r.listen(path, 0o600)
	l.close()
}

// A socket that the caller has made is served and refuses descriptors. Its file still exists
// after the server has ended.
func TestUse(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	l, err := Use(r.e, socket)
	require.NoError(t, err)
	r.start()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	c := r.dial(path)
	c.hello()
	if !unixsock.PassesRights(socket) { // from Linux 6.16 on
		_, _, err = c.conn.WriteMsgUnix([]byte("x"), unix.UnixRights(0), nil)
		require.ErrorIs(t, err, unix.EPERM)
	}
	cancel()
	require.NoError(t, <-done)
	c.ended()
	require.FileExists(t, path)

	stream, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + "2", Net: "unix"})
	require.NoError(t, err)
	defer stream.Close()
	_, err = Use(r.e, stream)
	require.EqualError(t, err, "server: socket "+path+"2 is of network unix; unixpacket (SOCK_SEQPACKET) is needed")
	_, err = Use(r.e, nil)
	require.EqualError(t, err, "server: no socket (nil)")
}
