//go:build linux && (amd64 || arm64)

package names

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// Names are equal if they are without regard to the case of ASCII letters: no other letter is one of ours,
// also if Unicode has one of ours as its lower case.
func TestOtherLetters(t *testing.T) {
	codeOf := func(name string, z Zone) dnsmessage.RCode {
		var m dnsmessage.Message
		require.NoError(t, m.Unpack(Answer(ask(t, name, dnsmessage.TypeALL), z)))
		return m.RCode
	}
	for _, name := range []string{"web-1.n\u0130cless.", "n\u0130cless.", "4.3.110.100.\u0130n-addr.arpa."} {
		require.Equal(t, refused, codeOf(name, hosts), name)
	}
	k := table{"k": hosts["four"]}
	require.Equal(t, success, codeOf("K.nicless.", k))
	require.Equal(t, unknown, codeOf("\u212a.nicless.", k))
}

// Addresses that are gone leave nothing behind.
func TestAddressesGo(t *testing.T) {
	s := NewServer(hosts, loopback, nil)
	s.port = 0
	t.Cleanup(s.Close)
	ip := netip.MustParseAddr("192.0.2.1")
	for range 100 {
		ip = ip.Next()
		s.Listen([]netip.Addr{ip, local})
	}
	require.Len(t, s.failed, 1)
	s.Listen(nil)
	require.Empty(t, s.failed)
}

// Connections have one path, which the filter judges.
func TestNoMultipath(t *testing.T) {
	l := filtered(loopback)
	require.False(t, l.MultipathTCP())
}
