package tun

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	at := func(all ...string) (list []netip.Prefix) {
		for _, s := range all {
			list = append(list, netip.MustParsePrefix(s))
		}
		return list
	}
	for _, row := range []struct {
		c    Config
		says string
	}{
		{Config{MTU: 1500}, "tun: the interface needs a name"},
		{Config{Name: "0123456789abcdef", MTU: 1500}, `tun: interface name "0123456789abcdef" has 16 bytes; the limit is 15`},
		{Config{Name: "a/b", MTU: 1500}, `tun: interface name "a/b"; `},
		{Config{Name: "a%d", MTU: 1500}, `tun: interface name "a%d"; `},
		{Config{Name: "..", MTU: 1500}, `tun: interface name ".."; `},
		{Config{Name: "a"}, "tun: MTU 0; it is 68 to 65535"},
		{Config{Name: "a", MTU: 67}, "tun: MTU 67; it is 68 to 65535"},
		{Config{Name: "a", MTU: 65536}, "tun: MTU 65536; it is 68 to 65535"},
		{Config{Name: "a", MTU: 1279, Addresses: at("fd77::1/64")}, "tun: MTU 1279 with address fd77::1/64; IPv6 needs at least 1280"},
		{Config{Name: "a", MTU: 1500, Addresses: []netip.Prefix{{}}}, "tun: address 0 is not an IP address with the length of a prefix"},
		{Config{Name: "a", MTU: 1500, Addresses: at("127.0.0.1/8")}, "tun: address 127.0.0.1/8 is not one that an interface can have"},
		{Config{Name: "a", MTU: 1500, Addresses: at("ff02::1/64")}, "tun: address ff02::1/64 is not one that an interface can have"},
		{Config{Name: "a", MTU: 1500, Addresses: at("10.0.0.1/8", "10.0.0.1/24")}, "tun: address 10.0.0.1 is given twice"},
	} {
		require.ErrorContains(t, row.c.check(), row.says)
		_, err := Open(row.c)
		require.ErrorContains(t, err, row.says)
	}
	for _, c := range []Config{
		{Name: "0123456789abcde", MTU: 68, Addresses: at("10.0.0.1/32")},
		{Name: "a", MTU: 65535, Addresses: at("fd77::1/128", "10.0.0.1/8")},
	} {
		require.NoError(t, c.check())
	}
}

func TestOffloads(t *testing.T) {
	assert.Equal(t, "none", Offloads(0).String())
	assert.Equal(t, "checksum, TSO", (Checksum | TSO).String())
	assert.Equal(t, "checksum, TSO, USO", (Checksum | TSO | USO).String())
}
