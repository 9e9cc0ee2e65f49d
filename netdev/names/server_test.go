//go:build linux && (amd64 || arm64)

package names

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var local = netip.MustParseAddr("127.0.0.1")

// listen answers at a port of 127.0.0.1.
func listen(t *testing.T) (s *Server, at string) {
	t.Helper()
	s = NewServer(hosts, loopback, nil)
	s.port = 0
	s.Listen([]netip.Addr{local})
	t.Cleanup(s.Close)
	require.Len(t, s.at, 1)
	return s, s.at[local].udp.LocalAddr().String()
}

// The resolver of Go's library finds names and addresses, by UDP and by TCP.
func TestServer(t *testing.T) {
	s, at := listen(t)
	for _, network := range []string{"udp", "tcp"} {
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		}}
		list, err := r.LookupHost(t.Context(), "web-1.nicless.")
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"100.110.3.4", "fd6e::5"}, list)
		list, err = r.LookupAddr(t.Context(), "fd6e::5")
		require.NoError(t, err)
		require.Equal(t, []string{"web-1.nicless."}, list)
		_, err = r.LookupHost(t.Context(), "x.nicless.")
		require.ErrorContains(t, err, "no such host")
	}
	s.Listen(nil)
	require.Empty(t, s.at)
	_, err := net.Dial("tcp", at)
	require.Error(t, err)
}

// More connections than there may be are closed; the others go on, and a query that is too long ends its own.
func TestConnections(t *testing.T) {
	_, at := listen(t)
	dialled := 0
	dial := func() net.Conn {
		from := net.ParseIP(fmt.Sprint("127.0.1.", 1+dialled/connectionsOfOne))
		dialled++
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
		c, err := d.Dial("tcp", at)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	answers := func(c net.Conn) {
		q := ask(t, "four.nicless.", typeA)
		_, err := c.Write(append([]byte{0, byte(len(q))}, q...))
		require.NoError(t, err)
		n, err := c.Read(make([]byte, 600))
		require.NoError(t, err)
		require.Greater(t, n, 2)
	}
	ends := func(c net.Conn) {
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
	}
	var all []net.Conn
	for range MaxConnections {
		c := dial()
		answers(c)
		all = append(all, c)
	}
	ends(dial())
	answers(all[0])
	_, err := all[1].Write([]byte{0xff, 0xff})
	require.NoError(t, err)
	ends(all[1])
	answers(all[2])
}

// An address at which nobody can answer is in the log once, and stops no other.
func TestAddressIsNotThere(t *testing.T) {
	var log strings.Builder
	s := NewServer(hosts, loopback, slog.New(slog.NewTextHandler(&log, nil)))
	s.port = 0
	t.Cleanup(s.Close)
	for range 2 {
		s.Listen([]netip.Addr{netip.MustParseAddr("192.0.2.1"), local})
	}
	require.Len(t, s.at, 1)
	require.Equal(t, 1, strings.Count(log.String(), "names are not answered at an address"), log.String())
}

// A client that keeps all the connections that it gets leaves some to others.
func TestConnectionsOfOthers(t *testing.T) {
	_, at := listen(t)
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", at)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	answers := func(c net.Conn) bool {
		q := ask(t, "four.nicless.", typeA)
		_, _ = c.Write(append([]byte{0, byte(len(q))}, q...))
		_, err := io.ReadFull(c, make([]byte, 40))
		return err == nil
	}
	var has int
	for range MaxConnections {
		if answers(dial("127.0.0.2")) {
			has++
		}
	}
	require.Equal(t, connectionsOfOne, has)
	require.True(t, answers(dial("127.0.0.3")))
}
