//go:build linux && (amd64 || arm64)

package auth

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func write(t testing.TB, path string, lines ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// A key file is made once, is private, and gives the same key each time.
func TestIdentity(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(t.TempDir(), "key")
	a, err := NewIdentity(path)
	require.NoError(t, err)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `^nicless-private-1 [A-Za-z0-9+/]{43}=\n$`, string(text))
	b, err := LoadIdentity(path)
	require.NoError(t, err)
	require.Equal(t, a.Public(), b.Public())
	_, err = NewIdentity(path)
	require.ErrorIs(t, err, fs.ErrExist)
	require.EqualError(t, err, "auth: key file "+path+" exists, and is not replaced; name another file, or remove it")
	_, err = NewIdentity(path + "/none/key")
	require.EqualError(t, err, "auth: make key file "+path+"/none/key: not a directory")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, after)

	k, err := ParsePublicKey(a.Public().String())
	require.NoError(t, err)
	require.Equal(t, a.Public(), k)
	require.Regexp(t, `^[0-9a-f]{16}$`, k.Fingerprint())
}

// The public key is that of RFC 7748, section 6.1 (Bob's).
func TestIdentityOfKnownKey(t *testing.T) {
	private, public := unhex(t, "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"), unhex(t, "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
	path := filepath.Join(t.TempDir(), "key")
	write(t, path, "nicless-private-1 "+base64.StdEncoding.EncodeToString(private))
	id, err := LoadIdentity(path)
	require.NoError(t, err)
	require.Equal(t, PublicKey(public), id.Public())
}

// A key file that others could have read or written, or that has no key, is refused.
func TestBadKeyFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	_, err := NewIdentity(path)
	require.NoError(t, err)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := func(want string) {
		t.Helper()
		_, err := LoadIdentity(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o644} {
		require.NoError(t, os.Chmod(path, mode))
		refused("chmod 0600")
	}
	require.NoError(t, os.Chmod(path, 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path, 12345, -1))
		refused("it belongs to uid 12345")
		require.NoError(t, os.Chown(path, 0, -1))
	}
	for _, text := range []string{"", "x", "nicless-public-1 " + string(good[18:]), "nicless-private-1", "nicless-private-1 AAAA", string(good[:40]),
		"nicless-private-1 " + base64.StdEncoding.EncodeToString(make([]byte, 32)), string(good) + string(good), strings.Repeat("x", mostKeyFile+1)} {
		write(t, path, text)
		refused("auth: key file")
	}
	require.NoError(t, os.Remove(path))
	refused("no such file")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	refused("no regular file")
}

func TestBadPublicKeys(t *testing.T) {
	for _, s := range []string{"", "nicless-public-1", "AAAA", "nicless-private-1 " + strings.Repeat("A", 43) + "=", strings.Repeat("A", 43) + "=", "a b c"} {
		_, err := ParsePublicKey(s)
		require.ErrorContains(t, err, "is no public key", "%q", s)
	}
}
