package nicless

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// announcer announces something and never ends.
func announcer(path string) error {
	c, err := Dial(path)
	if err != nil {
		return err
	}
	if err := c.Announce([]byte("from a process")); err != nil {
		return err
	}
	fmt.Println("announced")
	select {}
}

// announcesAs becomes the user of NICLESS_TEST_UID and obeys lines of its standard input: it announces
// "+value" to its user and "*value" to all, and prints for "?" what it reads.
func announcesAs(path string) error {
	uid, err := strconv.Atoi(os.Getenv("NICLESS_TEST_UID"))
	if err != nil {
		return err
	}
	if uid != 0 {
		if err := syscall.Setresuid(uid, uid, uid); err != nil {
			return err
		}
	}
	c, err := Dial(path)
	if err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		value := []byte(in.Text()[1:])
		switch in.Text()[0] {
		case '+':
			err = c.Announce(value)
		case '*':
			err = c.AnnounceToAll(value)
		case 'd':
			fmt.Println(dialClient(c, string(value)))
			continue
		}
		if err != nil {
			fmt.Println("error:", err)
			err = nil
			continue
		}
		all, err := c.Announcements()
		if err != nil {
			return err
		}
		var values []string
		for _, a := range all {
			values = append(values, string(a.Value))
		}
		slices.Sort(values)
		fmt.Println(strings.Join(values, " "))
	}
	return nil
}

// inProcess runs an engine in this process and returns its socket.
func inProcess(t testing.TB, cfg Config) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Serve(ctx, path, 0o600, cfg, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		require.NoError(t, err)
	}
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	return path
}

func dialed(t testing.TB, path string) *Context {
	t.Helper()
	c, err := Dial(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// announced returns the values of all announcements, and checks their order.
func announced(t *testing.T, c *Context) (values []string) {
	t.Helper()
	all, err := c.Announcements()
	require.NoError(t, err)
	for i, a := range all {
		require.NotZero(t, a.Client)
		if i > 0 {
			before := all[i-1]
			require.True(t, before.Device < a.Device || before.Device == a.Device && before.Client < a.Client, "%v, %v", before, a)
		}
		values = append(values, string(a.Value))
	}
	return values
}

// changed waits for the event that the announcements have changed.
func changed(t *testing.T, c *Context) {
	t.Helper()
	ctx := await.Context(t)
	ev, err := c.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, Event{Kind: EventAnnouncements}, ev)
	require.Equal(t, "announcements", ev.String())
}

// eventually waits until a context reads these announcements, in any order, because engines have random
// numbers. Each look but the first follows an event.
func eventually(t *testing.T, c *Context, want ...string) {
	t.Helper()
	for got := announced(t, c); !equal(got, want); got = announced(t, c) {
		changed(t, c)
	}
}

func equal(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// quiet checks that a context has no event. All events that the engine has sent before the call have
// come: a new descriptor for events is one more request, and its predecessor ends after them.
func quiet(t *testing.T, c *Context) {
	t.Helper()
	c.drainEvents()
	ev, err := c.PollEvent()
	require.ErrorIs(t, err, ErrDeviceGone, "the end of the events, and none before: %v", ev)
}

func TestAnnouncements(t *testing.T) {
	path := inProcess(t, Config{})
	a, b := dialed(t, path), dialed(t, path)
	require.Empty(t, announced(t, b))
	value := []byte("first")
	require.NoError(t, a.Announce(value))
	value[0] = 'x'
	changed(t, b)
	list, err := b.Announcements()
	require.NoError(t, err)
	require.Equal(t, []Announcement{{Device: a.Device(), Client: 1, Value: []byte("first")}}, list)
	require.Empty(t, announced(t, a), "a client does not read its own")

	require.NoError(t, a.Announce([]byte("second")))
	eventually(t, b, "second")
	require.NoError(t, b.Announce([]byte("\x00\xff")), "any bytes")
	eventually(t, a, "\x00\xff")
	c := dialed(t, path)
	require.NoError(t, c.Announce(nil), "nothing is withdrawn")
	require.Equal(t, []string{"second", "\x00\xff"}, announced(t, c))

	require.NoError(t, a.Announce(nil))
	changed(t, c)
	require.Equal(t, []string{"\x00\xff"}, announced(t, c))
	require.NoError(t, a.Announce([]byte("again")))
	changed(t, c)
	list, err = c.Announcements()
	require.NoError(t, err)
	require.Equal(t, Announcement{Device: a.Device(), Client: 1, Value: []byte("again")}, list[0], "the number of the client stays")
	require.NoError(t, a.Close())
	changed(t, c)
	require.Equal(t, []string{"\x00\xff"}, announced(t, c))
	d := dialed(t, path)
	require.NoError(t, d.Announce([]byte("d")))
	changed(t, c)
	list, err = c.Announcements()
	require.NoError(t, err)
	require.Equal(t, uint32(3), list[1].Client, "no number is used again")
}

// One event comes for any number of changes, none for what the client itself announces or what is the
// same as before, and none to a client that has not called Announcements.
func TestAnnouncementEventsAreCoalesced(t *testing.T) {
	path := inProcess(t, Config{})
	a, asks, never := dialed(t, path), dialed(t, path), dialed(t, path)
	require.Empty(t, announced(t, asks))
	for i := range 100 {
		require.NoError(t, a.Announce([]byte{byte(i)}))
	}
	changed(t, asks)
	require.Equal(t, []string{"\x63"}, announced(t, asks))
	require.NoError(t, a.Announce([]byte{99}))
	require.NoError(t, asks.Announce([]byte("mine")))
	quiet(t, asks)
	quiet(t, never)
}

// An event that the announcements have changed is not lost when the program takes its events too late,
// because there is no other.
func TestAnnouncementEventIsNotLost(t *testing.T) {
	c := dialed(t, inProcess(t, Config{}))
	c.put(waiting{Event: Event{Kind: EventAnnouncements}})
	for i := range 10 * maxEvents {
		c.put(waiting{Event: Event{Kind: EventDrained, Number: uint32(i)}})
	}
	news, lost := 0, 0
	for range maxEvents {
		ev, err := c.PollEvent()
		require.NoError(t, err)
		require.NotNil(t, ev)
		lost += ev.Lost
		if ev.Kind == EventAnnouncements {
			news++
		}
	}
	require.Equal(t, 1, news)
	require.Equal(t, 9*maxEvents+1, lost+c.lost)
}

func TestAnnouncerIsKilled(t *testing.T) {
	path := inProcess(t, Config{})
	c := dialed(t, path)
	require.Empty(t, announced(t, c))
	p := rerun(t, "announcer", path)
	require.Equal(t, "announced", p.line(t))
	eventually(t, c, "from a process")
	p.kill()
	eventually(t, c)
}

func TestAnnouncementLimits(t *testing.T) {
	path := inProcess(t, Config{})
	a, b := dialed(t, path), dialed(t, path)
	most := bytes.Repeat([]byte{0x80}, MaxAnnouncement)
	require.NoError(t, a.Announce(most))
	require.Equal(t, []string{string(most)}, announced(t, b))
	err := a.Announce(append(most, 0))
	require.EqualError(t, err, "nicless: announce: announcement of 481 bytes; at most 480 are possible")
	_, err = a.call("announce", control.OpAnnounce, &control.Announce{Value: strings.Repeat("x", MaxAnnouncement+1)}, &control.Empty{})
	require.ErrorContains(t, err, "announcement of 481 bytes; at most 480 are possible", "the engine judges too")
	require.Equal(t, []string{string(most)}, announced(t, b))

	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Announce(nil), ErrClosed)
	_, err = a.Announcements()
	require.ErrorIs(t, err, ErrClosed)
	var zero Context
	require.ErrorIs(t, zero.Announce(nil), errZero)
	_, err = zero.Announcements()
	require.ErrorIs(t, err, errZero)
	b.limits.Minor = 3
	require.ErrorContains(t, b.Announce([]byte("x")), "the engine's protocol is 2.3, whose announcements are for everybody; those for one user are since 2.4")
	require.NoError(t, b.AnnounceToAll([]byte("x")))
	require.NoError(t, b.Announce(nil), "that is withdrawn")
	b.limits.Minor = 2
	require.ErrorContains(t, b.Announce(nil), "the engine's protocol is 2.2; announcements are since 2.3")
}

// A list that changes between two requests: what is there all the time is read exactly once.
func TestAnnouncementsChangeWhileTheyAreRead(t *testing.T) {
	path := inProcess(t, Config{})
	var others [5]*Context
	for i := range others {
		others[i] = dialed(t, path)
		require.NoError(t, others[i].Announce([]byte{byte('0' + i)}))
	}
	c := dialed(t, path)
	next := func(place control.AnnouncementPlace) (a control.Announcement) {
		_, err := c.call("next", control.OpNextAnnouncement, &place, &a)
		require.NoError(t, err)
		return a
	}
	first := next(control.AnnouncementPlace{})
	require.Equal(t, "0", first.Value)
	require.NoError(t, others[0].Close())
	until(t, "the engine has seen the end of client 0", func() bool { return next(control.AnnouncementPlace{}).Value != "0" })
	require.NoError(t, others[1].Announce(nil))
	third := next(first.AnnouncementPlace)
	require.Equal(t, "2", third.Value)
	require.NoError(t, others[1].Announce([]byte("back")), "before the place")
	require.NoError(t, others[4].Announce([]byte("new")))
	require.Equal(t, "3", next(third.AnnouncementPlace).Value)
	require.Equal(t, "new", next(control.AnnouncementPlace{Device: first.Device, Client: 4}).Value)
	require.Zero(t, next(control.AnnouncementPlace{Device: first.Device, Client: 5}))
	require.Zero(t, next(control.AnnouncementPlace{Device: first.Device + 1}))
	require.Equal(t, "back", next(control.AnnouncementPlace{Device: first.Device - 1, Client: 9}).Value)
	require.Equal(t, "back", next(control.AnnouncementPlace{Client: 1}).Value)
}

// An embedded engine has one client, which reads no announcements until a link leads to others.
func TestAnnounceEmbedded(t *testing.T) {
	c, err := Open(Config{})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Announce([]byte("alone")))
	require.Empty(t, announced(t, c))
}

// An engine that lists announcements in the wrong order must not keep a client reading for ever.
func TestAnnouncementsOfAWrongEngine(t *testing.T) {
	dev, err := openEmbedded(Config{})
	require.NoError(t, err)
	c, err := newContext(repeating{dev}, nil)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Announcements()
	require.ErrorContains(t, err, "the engine lists client 3 of engine 0000000000000009 after client 3 of engine 0000000000000009")
}

type repeating struct{ device }

func (d repeating) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	if a, ok := ans.(*control.Announcement); ok {
		a.Device, a.Client = 9, 3
		return control.Reply{}, nil
	}
	return d.device.Call(op, req, ans)
}

// user starts a process of a user that obeys lines; see announcesAs.
func user(t *testing.T, path string, uid int, attr *syscall.SysProcAttr) (ask func(line string) string) {
	t.Setenv("NICLESS_TEST_UID", strconv.Itoa(uid))
	// other users cannot reach the directory of the binary
	p := &process{Cmd: exec.Command("/proc/self/exe", path)}
	p.Env = append(os.Environ(), "NICLESS_TEST_ROLE=user")
	p.Stderr, p.SysProcAttr = &p.err, attr
	in, err := p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.in, p.out = in, bufio.NewReader(out)
	require.NoError(t, p.Start())
	t.Cleanup(p.kill)
	return func(line string) string {
		_, err := io.WriteString(in, line+"\n")
		require.NoError(t, err)
		return p.line(t)
	}
}

// forUsers runs two engines that a pool joins, at sockets that all users can open.
func forUsers(t *testing.T) (here, there string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to have programs of other users")
	}
	link := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
	open := func(node string) string {
		dir, err := os.MkdirTemp("", "nicless-users")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		require.NoError(t, os.Chmod(dir, 0o755))
		path := filepath.Join(dir, "s")
		ctx, cancel := context.WithCancel(context.Background())
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, path, 0o666, Config{Links: []string{link + node}}, func() { close(ready) })
		}()
		select {
		case <-ready:
		case err := <-ended:
			require.NoError(t, err)
		}
		t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
		return path
	}
	return open("0"), open("1")
}

// A key that a program announces is read by programs of its user only, on its engine and on one that a pool
// leads to, also if they act as root of a user namespace, and by all only if it is announced to all.
func TestAnnouncementsOfUsers(t *testing.T) {
	here, there := forUsers(t)
	const alice, bob = 54321, 54322
	first, second := user(t, here, alice, nil), user(t, here, alice, nil)
	stranger, far, farStranger := user(t, here, bob, nil), user(t, there, alice, nil), user(t, there, bob, nil)
	container := user(t, here, 0, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: alice, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: alice, Size: 1}},
		Credential:  &syscall.Credential{NoSetGroups: true}})
	nobody := user(t, here, 65534, nil)

	require.Empty(t, first("+rkey"))
	require.Equal(t, "rkey", second("?"))
	require.Equal(t, "rkey", container("?"), "the kernel knows who it is")
	until(t, "the link tells it", func() bool { return far("?") == "rkey" })
	for _, ask := range []func(string) string{stranger, farStranger, nobody} {
		require.Empty(t, ask("?"))
	}
	require.Contains(t, nobody("+mine"), "error: nicless: announce: ")
	require.Empty(t, stranger("*hello"))
	require.Equal(t, "hello rkey", second("?"))
	require.Equal(t, "hello", nobody("?"))
	until(t, "the link tells it", func() bool { return farStranger("?") == "hello" })
	require.Equal(t, "hello rkey", far("?"))
	require.Equal(t, "hello rkey", container("+inside"))
	require.Equal(t, "hello inside", first("?"))
	require.Empty(t, stranger("?"), "it does not read its own, nor those of alice")
	require.Empty(t, stranger("+secret"))
	until(t, "the link tells it", func() bool { return farStranger("?") == "secret" })
	require.Empty(t, nobody("?"))
}
