//go:build linux && (amd64 || arm64)

package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An interface that has crashed is passed over; one that does not answer is named.
func TestQueryInterfaces(t *testing.T) {
	engine := filepath.Join(t.TempDir(), "[engine]")
	path := func(process string) string { return engine + interfaceSuffix + process }
	alive := links.Report{Link: "interface nicless0"}
	for _, process := range []string{"2", "5"} {
		stop, err := unixsock.Report(path(process), 0o600, func() any { return alive })
		require.NoError(t, err)
		defer stop()
	}
	require.NoError(t, unix.Close(listens(t, path("4"), 8))) // as a crash leaves it
	require.Equal(t, []links.Report{alive, alive}, queryInterfaces(engine, time.Minute))

	defer unix.Close(listens(t, path("1"), 8)) // takes the connection, and does not answer
	defer unix.Close(listens(t, path("3"), 0))
	waiting, err := net.Dial("unix", path("3")) // the one for which it has room
	require.NoError(t, err)
	defer waiting.Close()
	silent := func(process string) links.Report {
		return links.Report{Link: "interface of process " + process, About: "it has not answered in 10ms; is the process stopped?"}
	}
	require.Subset(t, queryInterfaces(engine, 10*time.Millisecond), []links.Report{silent("1"), silent("3")})
}

// listens opens a socket at which nobody accepts connections, with room for backlog+1 of them.
func listens(t *testing.T, path string, backlog int) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	require.NoError(t, unix.Listen(fd, backlog))
	return fd
}
