package engine

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Nobody can leave descriptors in a connection before it is accepted, nor after
// that, until they are let in.
func TestListenersPassNoRights(t *testing.T) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixpacket"})
	require.NoError(t, err)
	defer l.Close()
	if err := PassRights(l, false); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("the kernel has no SO_PASSRIGHTS, which came with Linux 6.16")
	} else {
		require.NoError(t, err)
	}
	c, err := net.DialUnix("unixpacket", nil, l.Addr().(*net.UnixAddr))
	require.NoError(t, err)
	defer c.Close()
	send := func() error {
		_, _, err := c.WriteMsgUnix([]byte("x"), unix.UnixRights(0), nil)
		return err
	}
	require.ErrorIs(t, send(), unix.EPERM, "before it is accepted")
	s, err := l.AcceptUnix()
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, send(), unix.EPERM, "before it is let in")
	require.NoError(t, PassRights(s, true))
	require.NoError(t, send())
	require.NoError(t, PassRights(s, false))
	require.ErrorIs(t, send(), unix.EPERM)
}
