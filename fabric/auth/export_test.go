//go:build linux && (amd64 || arm64)

package auth

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Both ends export the same keys, which differ by direction,
// by label, by session, and from those of the session.
func TestExport(t *testing.T) {
	a, b := newEnd(t, true), newEnd(t, true)
	seen := map[[keySize]byte]bool{}
	for range 2 {
		x, y := streams(t)
		one, two := meetAs(a, x, true, nil), meetAs(b, y, false, nil)
		p, q := <-one, <-two
		require.NoError(t, p.err)
		require.NoError(t, q.err)
		for _, label := range []string{"", "one", "two"} {
			send, receive := p.session.Export(label)
			theirSend, theirReceive := q.session.Export(label)
			require.Equal(t, send, theirReceive)
			require.Equal(t, receive, theirSend)
			for _, k := range [][keySize]byte{send, receive} {
				require.False(t, seen[k])
				seen[k] = true
			}
		}
		require.False(t, seen[p.session.send] || seen[q.session.send])
	}
}
