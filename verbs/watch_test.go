package verbs

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Explanations reach the watchers of the same user, and the server does not wait for watchers
// that do not read.
func TestWatchers(t *testing.T) {
	path := filepath.Join(t.TempDir(), WatchName)
	l, err := listen(path, 0o600)
	require.NoError(t, err)
	w := watchers{engine: newServing(t).engine}
	go w.accept(l)
	w.send("1", uint32(unix.Getuid()), "nobody hears %s", "this")
	conn, err := net.Dial("unixpacket", path)
	require.NoError(t, err)
	watched := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.all)
	}
	wait := func(n int) {
		await.Until(t, "as many watch as should", func() bool { return watched() == n }, func() any { return watched() })
	}
	wait(1)
	b := make([]byte, 1024)
	read := func() string {
		n, err := conn.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
	require.Equal(t, Watching, read())
	uid := uint32(unix.Getuid())
	w.send("7", uid+1, "of another user")
	w.send("8,3,1", uid, "queue %#x", 16)
	w.note(Began, "8,3,1", uid)
	w.note(Ended, "8,3,1", uid+1)
	require.Equal(t, "8,3,1 queue 0x10", read())
	require.Equal(t, "+ 8,3,1", read())
	for range 10_000 {
		w.send("9", uid, "what nobody reads")
	}
	require.NoError(t, conn.Close())
	wait(0)
	conn, err = net.Dial("unixpacket", path)
	require.NoError(t, err)
	wait(1)
	require.Equal(t, Watching, read())
	w.end(l)
	n, _ := conn.Read(b)
	require.Zero(t, n)
	wait(0)
}

// A context ends when all that the engine has sent for it is passed on, also if that takes long.
func TestEventsArePassedOnBeforeTheEnd(t *testing.T) {
	mine, engine, err := unixsock.Pair("events")
	require.NoError(t, err)
	defer mine.Close()
	watcher, server, err := unixsock.Pair("watcher")
	require.NoError(t, err)
	defer watcher.Close()
	to, err := net.FileConn(server)
	require.NoError(t, err)
	defer to.Close()
	require.NoError(t, server.Close())
	s := newServing(t)
	s.watched.all = map[*net.UnixConn]uint32{to.(*net.UnixConn): 7}
	defer func() { s.watched.all = nil }()
	x := &uctx{s: s, device: s.devices[0], uid: 7, lineage: "8,3,1", events: mine, listened: make(chan struct{})}
	const n = 100
	for i := range n {
		ev := control.Event{Kind: control.EventExplanation, Number: uint32(i), Text: "a reason"}
		_, err := engine.Write(control.Append(nil, control.OpOpenEvents, control.FlagAnswer, 0, &ev))
		require.NoError(t, err)
	}
	s.watched.mu.Lock() // so that the first one takes long
	go x.listen()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.passOn()
		s.watched.note(Ended, x.lineage, x.uid)
	}()
	s.watched.mu.Unlock()
	<-ended
	b := make([]byte, 1024)
	for i := range n {
		got, err := watcher.Read(b)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("8,3,1 nicless0: qp 0x%06x wqe 0: a reason ()", i), string(b[:got]))
	}
	got, err := watcher.Read(b)
	require.NoError(t, err)
	require.Equal(t, "- 8,3,1", string(b[:got]))
}

// A lineage has the process and its ancestors, up to the first one without a parent.
func TestLineage(t *testing.T) {
	list := strings.Split(lineage(int32(os.Getpid())), ",")
	require.Equal(t, []string{strconv.Itoa(os.Getpid()), strconv.Itoa(os.Getppid())}, list[:2])
	require.Equal(t, "1", list[len(list)-1])
	require.Equal(t, "1073741824", lineage(1<<30), "a process that does not exist")
}

// Neither one user nor several together can take all places for watchers.
func TestWatchersOfOneUser(t *testing.T) {
	w := watchers{engine: newServing(t).engine}
	one := func(uid uint32) bool {
		mine, theirs, err := unixsock.Pair("watcher")
		require.NoError(t, err)
		t.Cleanup(func() { _ = theirs.Close() })
		conn, err := net.FileConn(mine)
		require.NoError(t, err)
		_ = mine.Close()
		t.Cleanup(func() { _ = conn.Close() })
		return w.add(conn.(*net.UnixConn), uid)
	}
	for range maxWatchers / 2 {
		require.True(t, one(1))
	}
	require.False(t, one(1))
	for range maxWatchers / 4 {
		require.True(t, one(2))
	}
	require.False(t, one(2))
	require.True(t, one(3))
}
