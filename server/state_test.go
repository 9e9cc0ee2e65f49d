package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// stateSocket serves the state of an engine that runs, and returns the path of the engine.
func (r *rig) stateSocket() (path string) {
	r.Helper()
	r.start()
	path = filepath.Join(r.TB.(*testing.T).TempDir(), "s")
	stop, err := ServeState(r.e, path+state.Suffix, 0o600)
	require.NoError(r, err)
	r.Cleanup(stop)
	return path
}

// connectState connects to a state socket.
func (r *rig) connectState(path string) *net.UnixConn {
	r.Helper()
	c, err := net.Dial("unix", path+state.Suffix)
	require.NoError(r, err)
	r.Cleanup(func() { _ = c.Close() })
	await.Deadline(r.TB.(*testing.T), c.(*net.UnixConn))
	return c.(*net.UnixConn)
}

// A reader gets the device, its threads and its clients.
func TestServeState(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := r.stateSocket()
	c, err := r.d.Attach("one", 7, nic.Hosted{PID: os.Getpid(), Port: 0})
	require.NoError(t, err)
	defer c.Close()
	s, err := state.Read(r.patience, path, state.Request{})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%016x", r.d.GUID()), s.Device.GUID)
	require.Equal(t, os.Getpid(), s.Device.PID)
	require.Equal(t, state.SeesAll, s.Device.Sees)
	require.Len(t, s.Threads, 1)
	require.Len(t, s.Clients, 1)
	require.EqualValues(t, 7, s.Clients[0].UID)
	require.Equal(t, "one", s.Clients[0].Name)

	_, err = state.Read(r.patience, path, state.Request{PID: -1})
	require.ErrorIs(t, err, state.ErrRefused)
	require.ErrorContains(t, err, "pid -1")
}

// A request that is not one gets a line that says why. So does a reader that sends none.
func TestStateRequests(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := r.stateSocket()
	for request, why := range map[string]string{
		"no JSON\n":                              "the request is not one: invalid character",
		`{"kind":["x"]}` + "\n":                  `unknown field "kind"`,
		`{"kinds":["x"]}` + "\n":                 `kind "x"; "clients", "queues", "cqs" and "srqs" are possible`,
		strings.Repeat(" ", state.MostRequest+1): "a request of more than 4096 bytes",
		"":                                       "no request came",
	} {
		c := r.connectState(path)
		_, err := io.WriteString(c, request)
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		all, err := io.ReadAll(c)
		require.NoError(t, err)
		var l state.Line
		require.NoError(t, json.Unmarshal(all, &l), "one line: %s", all)
		require.Contains(t, l.Refused, why)
		require.False(t, l.End)
	}
	c := r.connectState(path)
	_, err := io.WriteString(c, "{}\n")
	require.NoError(t, err)
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(all)), "\n")
	require.Equal(t, `{"end":true}`, lines[len(lines)-1])
}

// A reader that stops reading has its answer cut, and holds neither the engine nor others. One user has few
// readers at once.
func TestStateIsNotRead(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.start()
	for i := range 3000 { // more than the buffers of a socket hold
		c, err := r.d.Attach(fmt.Sprint("client with a long name, so that its line is long, number ", i), 0, nic.Hosted{PID: 1})
		if err != nil {
			t.Logf("%d clients: %v", i, err)
			break
		}
		defer c.Close()
	}
	path := filepath.Join(t.TempDir(), "s")
	s := &stateServer{e: r.e, patience: 50 * time.Millisecond, readers: make(map[uint32]int)}
	stop, err := s.listen(path+state.Suffix, 0o600)
	require.NoError(t, err)
	defer stop()

	silent := r.connectState(path)
	_, err = io.WriteString(silent, "{}\n")
	require.NoError(t, err)
	got, err := state.Read(r.patience, path, state.Request{})
	require.NoError(t, err)
	require.Len(t, got.Clients, got.Device.Clients)
	r.until("the silent reader's answer is cut", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.readers) == 0
	})
	all, err := io.ReadAll(silent)
	require.NoError(t, err)
	require.False(t, strings.HasSuffix(string(all), "{\"end\":true}\n"), "the answer has no end")
}

func TestFewReadersOfAUser(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := r.stateSocket()
	var readers []*net.UnixConn
	for range readersOfUser {
		readers = append(readers, r.connectState(path)) // and sends nothing yet
	}
	c := r.connectState(path)
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "64 readers of the state at once, 8 of one user, are the most")
	require.NoError(t, readers[0].Close())
	r.until("there is room again", func() bool {
		_, err := state.Read(r.patience, path, state.Request{})
		return err == nil
	})
}

// A file, a directory or a link in place of the socket is not removed; a socket that nobody serves is.
func TestStateReplacesSocketsOnly(t *testing.T) {
	e := newRig(t, engine.Config{}).e
	dir := t.TempDir()
	for name, create := range map[string]func(path string) error{
		"file":      func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink(dir, path) },
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, create(path))
		_, err := ServeState(e, path, 0o600)
		require.ErrorContains(t, err, path+" exists and is not a socket")
		_, err = os.Lstat(path)
		require.NoError(t, err, "%s is still there", name)
	}
	path := filepath.Join(dir, "left")
	l, err := unixsock.ListenStream(path, 0o600)
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	stop, err := ServeState(e, path, 0o600)
	require.NoError(t, err)
	stop()
}

// Many uids, which one user can have, take no reader from root and the engine's user.
func TestReadersOfManyUsers(t *testing.T) {
	s := &stateServer{readers: make(map[uint32]int)}
	other := uint32(os.Getuid()) + 1
	for i := range uint32(mostReaders) {
		require.True(t, s.admit(other+i/readersOfUser), "reader %d", i)
	}
	require.False(t, s.admit(other+mostReaders), "all are taken")
	for _, uid := range []uint32{0, uint32(os.Getuid())} {
		require.True(t, s.admit(uid), "user %d", uid)
		s.leave(uid)
	}
	s.leave(other)
	require.True(t, s.admit(other+mostReaders), "there is room again")
}

// A reader that is refused has the reason, and its request stays unread: no descriptor that came with it is
// closed by the goroutine that accepts, which waits for no reader.
func TestRefusedReaderIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := unixsock.ListenStream(path, 0o600)
	require.NoError(t, err)
	defer l.Close()
	reader, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer reader.Close()
	await.Deadline(t, reader.(*net.UnixConn))
	c, err := l.AcceptUnix()
	require.NoError(t, err)
	defer c.Close()
	const request = "{}\n"
	_, err = io.WriteString(reader, request)
	require.NoError(t, err)
	refuseReader(c)
	line, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "are the most")
	await.Deadline(t, c)
	unread := make([]byte, len(request))
	_, err = io.ReadFull(c, unread)
	require.NoError(t, err)
	require.Equal(t, request, string(unread))
}

// Engines of the fabric are asked for alone. A user who is neither root nor the engine's gets counts of them,
// and no programs.
func TestFabricOfUsers(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.start()
	told := &state.Summary{Queues: 3, Disclosed: true, Programs: []state.Program{{Name: "p"}}}
	list := []state.Peer{{GUID: "1", Up: true, Summary: told}, {GUID: "2", Why: "it is down"}}
	path := filepath.Join(t.TempDir(), "s")
	stop, err := ServeFabricState(r.e, func() []state.Peer { return list }, path+state.Suffix, 0o600)
	require.NoError(t, err)
	defer stop()
	s, err := state.Read(r.patience, path, state.Request{Fabric: true})
	require.NoError(t, err)
	require.Equal(t, list, s.Peers)
	_, err = state.Read(r.patience, path, state.Request{Fabric: true, PID: 1})
	require.ErrorContains(t, err, "engines of the fabric are asked for alone")

	var got []state.Peer
	server := &stateServer{e: r.e, fabric: func() []state.Peer { return list }}
	stranger := uint32(os.Getuid()) + 1
	require.NoError(t, server.lines(stranger, &state.Request{Fabric: true}, func(l *state.Line) error {
		got = append(got, *l.Peer)
		return nil
	}))
	require.Equal(t, []state.Peer{{GUID: "1", Up: true, Summary: &state.Summary{Queues: 3}}, list[1]}, got)
	require.NotEmpty(t, told.Programs, "others get them still")

	alone := filepath.Join(t.TempDir(), "s")
	stopAlone, err := ServeState(r.e, alone+state.Suffix, 0o600)
	require.NoError(t, err)
	defer stopAlone()
	_, err = state.Read(r.patience, alone, state.Request{Fabric: true})
	require.ErrorContains(t, err, "this engine has no links to others")
}
