//go:build linux && (amd64 || arm64)

package ucx

import (
	"testing"

	"github.com/nicless/nicless/fabric/optiontest"
	"github.com/stretchr/testify/require"
)

// The comment on Parse, which go doc prints, has every option with its default. Those of tls and
// devices are UCX's own.
func TestDefaultsInTheComment(t *testing.T) {
	_, err := Parse("h:1,nothing=1")
	got, err := Parse("h:1," + optiontest.Defaults(t, err, "listen", "peer", "key", "peers", "trust", "auth"))
	require.NoError(t, err)
	require.Equal(t, []string{"UCX_TLS=all", "UCX_NET_DEVICES=all"}, got.Env)
	require.Equal(t, "libucp.so.0", got.Library)
	got.Env, got.Library = nil, ""
	want, err := Parse("h:1")
	require.NoError(t, err)
	require.Equal(t, want.withDefaults(), got.withDefaults())
}
