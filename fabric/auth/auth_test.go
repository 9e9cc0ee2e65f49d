//go:build linux && (amd64 || arm64)

package auth

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	here  = netip.MustParseAddr("192.0.2.1")
	there = netip.MustParseAddr("192.0.2.2")
)

// An end is one end of handshakes in a test, with its files.
type end struct {
	*Party
	key, file string
	log       *strings.Builder
}

// newEnd returns an end that accepts the keys in lines.
func newEnd(t testing.TB, trust bool, lines ...string) *end {
	t.Helper()
	dir := t.TempDir()
	e := &end{key: filepath.Join(dir, "key"), log: &strings.Builder{}}
	id, err := NewIdentity(e.key)
	require.NoError(t, err)
	e.file = e.key + ".peers"
	write(t, e.file, lines...)
	peers, err := OpenPeers(e.file, trust, slog.New(slog.NewTextHandler(e.log, nil)))
	require.NoError(t, err)
	e.Party = &Party{Identity: id, Peers: peers, Required: true}
	return e
}

// accepts makes the end accept another one's key from an address.
func (e *end) accepts(t testing.TB, other *end, from netip.Addr) {
	t.Helper()
	write(t, e.file, from.String()+" "+other.Identity.Public().String())
	require.True(t, e.Peers.Refresh())
}

// pair returns two ends that accept each other: a at the address here, b at there.
func pair(t testing.TB) (a, b *end) {
	a, b = newEnd(t, false), newEnd(t, false)
	a.accepts(t, b, there)
	b.accepts(t, a, here)
	return a, b
}

const carrier = "nicless test 1"

// begin returns the two ends of a handshake: x of a, which begins, and y of b.
func begin(t testing.TB, a, b *end) (x, y *Handshake) {
	t.Helper()
	x, err := a.Handshake(carrier, true, there, 0xa1a2a3a4, nil)
	require.NoError(t, err)
	y, err = b.Handshake(carrier, false, here, 0xb1b2b3b4, nil)
	require.NoError(t, err)
	return x, y
}

// move carries the next message from x to y.
func move(t testing.TB, x, y *Handshake) error {
	t.Helper()
	b, err := x.Write()
	require.NoError(t, err)
	return y.Read(b)
}
