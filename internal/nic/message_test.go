package nic

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// A message names its device by number, or by address if the sender does not know the number.
func TestPlaceOfMessage(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.7").As16(), netip.MustParseAddr("2001:db8::7").As16()
	require.Equal(t, "engine 0000000000000abc", BoxMessage{Device: 0xabc, GID: v4}.Place())
	require.Equal(t, "the engine at 192.0.2.7", BoxMessage{GID: v4}.Place())
	require.Equal(t, "the engine at 2001:db8::7", BoxMessage{GID: v6}.Place())
}
