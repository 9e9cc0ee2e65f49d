//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/netdev"
	"github.com/stretchr/testify/require"
)

// An announced is an interface on whose fabric some addresses are taken.
type announced struct{ list, taken []netip.Addr }

func (a *announced) Stats() netdev.Stats { return netdev.Stats{Addresses: a.list} }

func (a *announced) SetAddresses(list []netip.Addr) error {
	if slices.ContainsFunc(list, func(ip netip.Addr) bool { return slices.Contains(a.taken, ip) }) {
		return errors.New("it is taken")
	}
	a.list = slices.Clone(list)
	return nil
}

// Addresses that come later are announced after those from before; those for which there is no room and those
// that are taken are left out with words, and are no reason to leave out others.
func TestAnnounceAddresses(t *testing.T) {
	addresses := func(s string) (list []netip.Addr) {
		for _, a := range strings.Fields(s) {
			list = append(list, netip.MustParseAddr(a))
		}
		return list
	}
	for _, c := range []struct{ now, want, log string }{
		{"10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2", ""},
		{"10.0.0.2 10.0.0.1", "10.0.0.1 10.0.0.2", ""},
		{"10.0.0.2 10.0.0.3", "10.0.0.2 10.0.0.3", "addresses have changed"},
		{"10.0.0.9 10.0.0.3 10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.9 why=\"it is taken\""},
		{"10.0.0.9 10.0.0.1", "10.0.0.1", "10.0.0.9 why=\"it is taken\""},
		{"10.0.0.9", "10.0.0.1 10.0.0.2", "10.0.0.9 why=\"it is taken\""},
		{"", "10.0.0.1 10.0.0.2", "has no address any more"},
		{"10.0.0.5 10.0.0.4 10.0.0.3 10.0.0.2 10.0.0.1", "10.0.0.1 10.0.0.2 10.0.0.5 10.0.0.4", "addresses=[10.0.0.3] most=4"},
	} {
		a := announced{list: addresses("10.0.0.1 10.0.0.2"), taken: addresses("10.0.0.9")}
		var b bytes.Buffer
		announceAddresses(&a, addresses(c.now), slog.New(slog.NewTextHandler(&b, nil)))
		require.Equal(t, addresses(c.want), a.list, c.now)
		require.Contains(t, b.String(), c.log)
		require.Equal(t, c.log == "", b.Len() == 0, b.String())
	}
}
