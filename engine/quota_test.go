package engine

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func oldKernel(e *Engine) {
	e.refuseRights = true
	e.passRights = func(syscall.Conn, bool) error { return unix.ENOPROTOOPT }
}

// A user may be refused and have connections that take long to close because of what
// lies in them unread. That does not keep others from being served, here without the
// kernel's help.
func TestLingeringConnectionsStopNobodyElse(t *testing.T) {
	needRoot(t)
	r := newRig(t, Config{})
	r.e.shares.most[descriptors] = 64
	path := r.serveAll(oldKernel)
	plain := memfd(t, 1, 0)
	for n := range 64 { // as many as there are
		fd, own := plain, n < 8
		if own {
			fd = lingering(t)
		}
		c := r.dialAs(1000, path)
		_, _, _ = c.conn.WriteMsgUnix([]byte("garbage"), nil, nil) // ends the connection
		for range 3 {
			_, _, _ = c.conn.WriteMsgUnix([]byte("unread"), unix.UnixRights(fd, fd), nil)
		}
		if own {
			go unix.Close(fd) // which lingers here if the engine was quicker
		}
		require.NoError(t, c.conn.Close())
	}
	good := r.dialAs(2000, path)
	good.hello()
	r.until("what the kernel held up is closed", func() bool { return r.e.discarded.connections.waiting() == 0 })
	require.Nil(t, good.call(control.OpAllocPD, &control.Empty{}, &control.PD{}))
}

// Where the kernel can refuse descriptors, none comes into a connection, not even
// before it is accepted; answers with descriptors go through.
func TestListenerRefusesDescriptors(t *testing.T) {
	r := newRig(t, Config{})
	path := r.serveAll(func(e *Engine) { e.refuseRights = true })
	if err := PassRights(r.dial(path).conn, true); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("needs Linux 6.16, which knows SO_PASSRIGHTS")
	}
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	c := r.dial(path)
	for _, greeted := range []bool{false, true} {
		if greeted {
			c.hello() // whose answer brings two
		}
		_, _, err := c.conn.WriteMsgUnix([]byte("x"), unix.UnixRights(p[0]), nil)
		require.ErrorIs(t, err, unix.EPERM)
	}
}

// PassRights turns it off and on again.
func TestPassRights(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	a, b := os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
	defer a.Close()
	defer b.Close()
	send := func() error { return unix.Sendmsg(int(b.Fd()), []byte("x"), unix.UnixRights(int(b.Fd())), nil, 0) }
	if err := PassRights(a, false); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("needs Linux 6.16, which knows SO_PASSRIGHTS")
	}
	require.ErrorIs(t, send(), unix.EPERM)
	require.NoError(t, PassRights(a, true))
	require.NoError(t, send())
	require.Error(t, PassRights(&net.UnixConn{}, true))
}

// Closers are per user, whatever the uids are.
func TestClosersDoNotCollide(t *testing.T) {
	r := newRig(t, Config{})
	stuck, done := make(chan struct{}), make(chan struct{})
	r.e.discard(1, 0, func() { <-stuck })
	for uid := uint32(2); uid <= 3000; uid++ {
		r.e.discard(uid, 0, func() { done <- struct{}{} })
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("uid %d waits behind uid 1", uid)
		}
	}
	close(stuck)
}

// One user's closers are bounded, and users with stuck ones leave half of all to
// those who have none.
func TestClosersAreBounded(t *testing.T) {
	var c closers
	release := make(chan struct{})
	var all sync.WaitGroup
	stick := func(user uint32, n int) {
		for range n {
			all.Add(1)
			c.add(user, func() { defer all.Done(); <-release })
		}
	}
	busy := func(user uint32) int {
		c.mu.Lock()
		defer c.mu.Unlock()
		if p := c.users[user]; p != nil {
			return p.busy
		}
		return 0
	}
	r := &rig{TB: t}
	const greedy = closersMost/2/closersEach + 10
	for user := range uint32(greedy) {
		stick(user, closersEach+4)
	}
	r.until("half of them are stuck", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.busy >= closersMost/2
	})
	for user := range uint32(greedy) {
		require.GreaterOrEqual(t, busy(user), 1)
		require.LessOrEqual(t, busy(user), closersEach)
	}
	done := make(chan struct{})
	c.add(9999, func() { close(done) })
	<-done
	for user := uint32(10_000); c.waiting() < greedy*4+closersMost; user++ { // more than there are
		stick(user, 1)
	}
	c.mu.Lock()
	require.Equal(t, closersMost, c.busy)
	c.mu.Unlock()
	close(release)
	all.Wait()
	r.until("all are done", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.busy == 0 && len(c.users) == 0 && len(c.turns) == 0 && c.length == 0
	})
}

// A close that lingers is interrupted.
func TestLingeringCloseIsInterrupted(t *testing.T) {
	r := newRig(t, Config{})
	fd, done := lingering(t), make(chan struct{})
	r.e.discard(7, 0, func() {
		_ = unix.Close(fd)
		close(done)
	})
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("not closed in ten seconds")
	}
}

// A connection is its user's until it is really closed.
func TestConnectionCountsUntilClosed(t *testing.T) {
	r := newRig(t, Config{})
	uid := uint32(os.Geteuid())
	release := make(chan struct{})
	for range closersEach {
		r.e.discarded.connections.add(uid, func() { <-release })
	}
	r.e.refuseRights = false // so that descriptors may lie in it
	path := r.serve()
	c := r.dial(path)
	c.hello()
	require.NoError(t, c.conn.Close())
	want := bill{descriptors: 1, connections: 1}
	r.until("the client is gone", func() bool { return r.owed() == want })
	r.until("the connection waits", func() bool { return r.e.discarded.connections.waiting() == 1 })
	require.Equal(t, want, r.owed())
	close(release)
	r.until("the connection is closed", func() bool { return r.owed() == bill{} })
}
