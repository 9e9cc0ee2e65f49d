//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/nicless/nicless/netdev"
	"github.com/stretchr/testify/require"
)

// clashes runs an interface that gives its address away each time that so much time has passed, at most that
// often, and returns how often it ran, the most addresses that it had to leave out, and how it ended.
func clashes(every time.Duration, most int) (runs, kept int, err error) {
	end := errors.New("signal")
	w := wanted{cfg: netdev.Config{Log: slog.New(slog.DiscardHandler)}, picks: new(netdev.Picks)}
	var now time.Time
	ip := netip.MustParseAddr("100.110.0.0")
	err = runAgain(context.Background(), w, func(_ context.Context, w wanted) error {
		runs++
		kept = max(kept, len(w.picks.Kept))
		if runs > most {
			return end
		}
		now, ip = now.Add(every), ip.Next()
		return &netdev.Clash{Address: ip}
	}, func() time.Time { return now })
	if errors.Is(err, end) {
		err = nil
	}
	return runs, kept, err
}

// An interface that gives its address away too often within a day ends; one that does so for months does not.
func TestAddressesGivenAway(t *testing.T) {
	const months = 1000
	runs, _, err := clashes(time.Second, months)
	require.ErrorContains(t, err, "9 addresses were given away within 24h0m0s")
	require.Equal(t, 1+mostGiven, runs)
	require.ErrorAs(t, err, new(*netdev.Clash))

	runs, kept, err := clashes(givenTime/mostGiven, months)
	require.NoError(t, err)
	require.Equal(t, months+1, runs)
	require.Equal(t, mostGiven, kept)

	_, _, err = clashes(givenTime/mostGiven-time.Second, months)
	require.Error(t, err)
}

// Addresses of IPv6 with too small an MTU are refused before anything is opened. None is picked by default.
func TestMTUOfIPv6(t *testing.T) {
	for _, f := range []netFlags{
		{addresses: []string{"10.1.0.1/24", "fd08::1/64"}, mtu: leastMTU6 - 1},
		{prefixes: []string{"fd08::/64"}, mtu: leastMTU6 - 1},
	} {
		_, err := f.wanted()
		require.ErrorContains(t, err, "with MTU 1279; IPv6 needs at least 1280")
		f.mtu = leastMTU6
		_, err = f.wanted()
		require.NoError(t, err)
	}
	f := netFlags{mtu: leastMTU6 - 1}
	w, err := f.wanted()
	require.NoError(t, err)
	require.Equal(t, []netip.Prefix{pickFrom4}, w.picks.Prefixes)
}

// Addresses and networks that cannot be are refused with a hint, before anything is opened.
func TestAddressesThatCannotBe(t *testing.T) {
	for says, f := range map[string]netFlags{
		`--addr "10.1.0.1" is not an address`:                      {addresses: []string{"10.1.0.1"}},
		"address 192.168.8.0/24 is that of the network":            {addresses: []string{"192.168.8.0/24"}},
		"address 224.0.0.1/24 is not one that an interface":        {addresses: []string{"224.0.0.1/24"}},
		"address 127.0.0.2/8 is not one that an interface":         {addresses: []string{"127.0.0.2/8"}},
		`--prefix "x" is not a network such as 10.9.0.0/16`:        {prefixes: []string{"x"}},
		`--prefix "10.9.0.0" is not a network such as 10.9.0.0/16`: {prefixes: []string{"10.9.0.0"}},
		"prefix 10.9.0.1/16 is not a network such as 10.9.0.0/16":  {prefixes: []string{"10.9.0.1/16"}},
	} {
		f.mtu = leastMTU6
		_, err := f.wanted()
		require.ErrorContains(t, err, says)
		var h *hinted
		require.ErrorAs(t, err, &h)
		require.NotEmpty(t, h.hint)
	}
}
