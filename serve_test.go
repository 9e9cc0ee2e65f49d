package nicless

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An engine serves a socket that somebody else has made: also a client that
// connected before there was an engine. The socket's file stays.
func TestServeListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	early := make(chan error, 1)
	connecting := make(chan struct{})
	go func() {
		close(connecting)
		c, err := Dial(path)
		if err == nil {
			err = c.Close()
		}
		early <- err
	}()
	<-connecting
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- ServeListener(ctx, l, Config{}, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	require.NoError(t, <-early)
	c, err := Dial(path)
	require.NoError(t, err)
	stop()
	require.NoError(t, <-ended)
	<-c.Done()
	require.NoError(t, c.Close())
	_, err = os.Stat(path)
	require.NoError(t, err)
	_, err = l.AcceptUnix()
	require.Error(t, err, "closed, or about to be")
}

func TestListenersThatAreRefused(t *testing.T) {
	require.ErrorContains(t, ServeListener(t.Context(), nil, Config{}, nil), "nil")
	path := filepath.Join(t.TempDir(), "stream")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer l.Close()
	require.ErrorContains(t, ServeListener(t.Context(), l, Config{}, nil), "is of network unix; unixpacket")
	l2, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket"})
	require.NoError(t, err)
	defer l2.Close()
	require.ErrorContains(t, ServeListener(t.Context(), l2, Config{VerbsDevices: 1}, nil), "without a path")
}

func TestNegativeLimits(t *testing.T) {
	for says, l := range map[string]Limits{
		"Limits.Regions -1": {Regions: -1}, "Limits.PDs -1": {PDs: -1}, "Limits.MRs -2": {MRs: -2}, "Limits.CQs -1": {CQs: -1},
		"Limits.QPs -1": {QPs: -1}, "Limits.Channels -1": {Channels: -1},
	} {
		_, err := Open(Config{Limits: l})
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, Serve(t.Context(), filepath.Join(t.TempDir(), "s"), 0o600, Config{Limits: l}, nil), says)
	}
	require.ErrorContains(t, Serve(t.Context(), filepath.Join(t.TempDir(), "s"), 0o600, Config{VerbsDevices: -1}, nil), "VerbsDevices -1")
}
