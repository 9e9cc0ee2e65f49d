package nicless

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// An engine serves a socket that was made elsewhere. It also serves a client that
// connected before there was an engine. The socket's file is not removed.
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

// ServeListener closes a listener that it refuses or on which it cannot serve.
func TestListenersThatAreRefused(t *testing.T) {
	require.ErrorContains(t, ServeListener(t.Context(), nil, Config{}, nil), "nil")
	for _, c := range []struct {
		network, name string
		cfg           Config
		says          string
	}{
		{"unix", "stream", Config{}, "is of network unix; unixpacket"},
		{"unixpacket", "", Config{VerbsDevices: 1}, "without a path"},
		{"unixpacket", "config", Config{Limits: Limits{QPs: -1}}, "Limits.QPs -1"},
		{"unixpacket", "engine", Config{CPUs: []int{-1}}, "core -1"},
	} {
		path := c.name
		if path != "" {
			path = filepath.Join(t.TempDir(), path)
		}
		l, err := net.ListenUnix(c.network, &net.UnixAddr{Name: path, Net: c.network})
		require.NoError(t, err)
		require.ErrorContains(t, ServeListener(t.Context(), l, c.cfg, nil), c.says)
		await.Deadline(t, l)
		_, err = l.AcceptUnix()
		require.ErrorIs(t, err, net.ErrClosed)
		if path != "" {
			require.FileExists(t, path)
		}
	}
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
