//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nicless/nicless/verbs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// greeter returns the path of a socket that takes one watch and greets it.
func greeter(t *testing.T) (path string, accepted <-chan net.Conn) {
	path = filepath.Join(t.TempDir(), "explain.sock")
	l, err := net.Listen("unixpacket", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	conns := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = conn.Write([]byte(verbs.Watching))
		}
		assert.NoError(t, err)
		conns <- conn
	}()
	return path, conns
}

// A watch has all that is said about processes that have ended, also if the engine learns of it long after
// this process. It does not wait for processes that run, or are not its own.
func TestWatchWaitsForTheEnd(t *testing.T) {
	path, accepted := greeter(t)
	heard := make(chan string, 8)
	w, err := watchExplanations(path, func(pid, text string) { heard <- pid + ": " + text })
	require.NoError(t, err)
	conn := <-accepted
	say := func(format string, args ...any) {
		_, err := fmt.Fprintf(conn, format, args...)
		require.NoError(t, err)
	}
	child := exec.Command("true")
	require.NoError(t, child.Run())
	dead, us := child.Process.Pid, os.Getpid()
	for range 2 { // a connection and a device
		say("+ %d,%d,1", dead, us)
	}
	say("+ %d,1", dead)
	say("+ %d,%d,1", os.Getppid(), us) // it runs
	say("%d,%d,1 first", dead, us)
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.stop(time.Hour) }()
	<-w.done // from here on it waits
	say("- %d,%d,1", dead, us)
	say("%d,%d,1 last", dead, us)
	say("- %d,%d,1", dead, us)
	<-stopped
	close(heard)
	var all []string
	for text := range heard {
		all = append(all, text)
	}
	require.Equal(t, []string{fmt.Sprintf("%d: first", dead), fmt.Sprintf("%d: last", dead)}, all)
}

// Something is outstanding about a process of this command that has ended, until all that it had has ended.
func TestOutstanding(t *testing.T) {
	w := watch{open: make(map[string]int)}
	child := exec.Command("true")
	require.NoError(t, child.Run())
	dead, us := child.Process.Pid, os.Getpid()
	for _, c := range []struct {
		line string
		want bool
	}{
		{fmt.Sprintf("%s%d,1", verbs.Began, dead), false},
		{fmt.Sprintf("%s%d,%d,1", verbs.Began, os.Getppid(), us), false}, // it runs
		{fmt.Sprintf("%s%d,%d,1", verbs.Began, dead, us), true},
		{fmt.Sprintf("%s%d,%d,1", verbs.Began, dead, us), true},
		{fmt.Sprintf("%s%d,%d,1", verbs.Ended, dead, us), true},
		{fmt.Sprintf("%s%d,1", verbs.Ended, dead), true},
		{fmt.Sprintf("%s%d,%d,1", verbs.Ended, dead, us), false},
		{verbs.Began, false}, {verbs.Ended + "7", false}, {verbs.Watching, false}, {"", false},
	} {
		w.take(c.line)
		require.Equal(t, c.want, w.outstanding(), c.line)
	}
}

// An engine that takes no more watchers, or has ended, is an error.
func TestWatchIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "explain.sock")
	l, err := net.Listen("unixpacket", path)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	_, err = printExplanations(path, new(bytes.Buffer), 0)
	require.ErrorContains(t, err, "as many watchers as it takes")
}

// Explanations for descendants of this process are printed; others are not. The program and its
// parent may have ended when the line arrives.
func TestExplanationsOfOurProgramsOnly(t *testing.T) {
	path, accepted := greeter(t)
	var out bytes.Buffer
	stop, err := printExplanations(path, &out, 0)
	require.NoError(t, err)
	conn := <-accepted
	us, parent := os.Getpid(), os.Getppid()
	for _, line := range []string{
		fmt.Sprintf("2000000001,%d,%d,1 nicless0: ds 0", us, parent), "1 of another", "nonsense",
		fmt.Sprintf("%d,1 of our parent", parent), fmt.Sprintf("2000000001,%d0,%d,1 of a sibling", us, parent), fmt.Sprintf("%d,%d of us", us, parent),
		fmt.Sprintf("2000000003,2000000002,%d,%d,1 nicless0: of a grandchild", us, parent),
	} {
		_, err := conn.Write([]byte(line))
		require.NoError(t, err)
	}
	stop(nil)
	require.Equal(t, "nicless: explanation: pid 2000000001: nicless0: ds 0\nnicless: explanation: pid 2000000003: nicless0: of a grandchild\n", out.String())
}
