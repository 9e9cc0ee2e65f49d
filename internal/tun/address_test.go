//go:build linux && (amd64 || arm64)

package tun

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// When Open returns, the kernel takes packets for all addresses: they may be announced to peers. The kernel
// gets there by a work queue, so one interface proves little.
func TestAddressesAreUsableAtOnce(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	for range 30 {
		c := Config{Name: "usable", MTU: 1500, Addresses: prefixes("fd77:9::1/64", "10.77.9.1/24", "fd77:a::1/64")}
		d, err := Open(c)
		require.NoError(t, err)
		for _, p := range c.Addresses {
			require.True(t, isLocal(p.Addr()), "%v", p)
		}
		require.NoError(t, d.Close())
	}
}
