//go:build linux && (amd64 || arm64)

package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/cmd/nicless/internal/web"
	"github.com/stretchr/testify/require"
)

func TestReadToken(t *testing.T) {
	none, err := readToken("")
	require.NoError(t, err)
	require.Empty(t, none)
	one, err := readToken(generated)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(one), leastToken)
	two, err := readToken(generated)
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("0123456789-_.abc\n"), 0o600))
	read, err := readToken(file)
	require.NoError(t, err)
	require.Equal(t, "0123456789-_.abc", read)
}

// Without a host only this host sees the page, and a port that is in use is named.
func TestListenForWeb(t *testing.T) {
	l, err := listenForWeb(":0")
	require.NoError(t, err)
	defer l.Close()
	require.True(t, web.Local(l.Addr()))
	_, err = listenForWeb(l.Addr().String())
	require.ErrorContains(t, err, "address already in use")
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	_, err = listenForWeb(":" + port)
	var h *hinted
	require.ErrorAs(t, err, &h)
	require.Contains(t, h.hint, "'sport = :"+port+"'")
}

// The printed address is one that others can use, if the page is for others.
func TestReachable(t *testing.T) {
	one := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 80}
	require.Equal(t, one, reachable(one))
	for _, all := range []net.IP{net.IPv4zero, net.IPv6unspecified} {
		at := reachable(&net.TCPAddr{IP: all, Port: 80})
		require.False(t, at.IP.IsUnspecified())
		require.Equal(t, 80, at.Port)
	}
}
