//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
)

// Hosts are found by their names. Of two with one name that with the lowest address is found, by all but the
// other itself, and the log says so.
func TestHostAddresses(t *testing.T) {
	socket := serve(t)
	var out lines
	named := func(host string) func(*Config) { return func(c *Config) { c.Host, c.Log = host, logTo(&out) } }
	a := start(t, socket, "10.1.0.1", named("a"))
	b3, b2 := start(t, socket, "10.1.0.3", named("b")), start(t, socket, "10.1.0.2", named("b"))
	for _, n := range []*node{a, b2, b3} {
		n.until("it knows the others", func(s Stats) bool { return len(s.Peers) == 2 })
	}
	find := func(n *node, host string, want ...netip.Addr) {
		t.Helper()
		require.ElementsMatch(t, want, n.in.HostAddresses(host))
	}
	find(a, "b", b2.addr)
	find(b2, "b", b2.addr)
	find(b3, "b", b3.addr)
	find(b3, "a", a.addr)
	find(a, "c")
	find(a, "")
	require.Equal(t, "b", a.in.HostOf(b3.addr))
	require.Equal(t, "a", a.in.HostOf(a.addr))
	require.Empty(t, a.in.HostOf(netip.MustParseAddr("10.1.0.9")))
	await.Until(t, "the log has both", func() bool {
		return strings.Contains(out.text(), `host=b addresses="[10.1.0.2 10.1.0.3]"`)
	}, func() any { return out.text() })
	b2.stop()
	a.until("one is gone", func(s Stats) bool { return len(s.Peers) == 1 })
	find(a, "b", b3.addr)
	_, err := Open(a.c, a.wire, Config{Addresses: []netip.Addr{a.addr}, Host: "A"})
	require.ErrorContains(t, err, `host's name "A"`)
}
