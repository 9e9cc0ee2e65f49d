package engine

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// socket makes a request that is answered with an event socket.
func (h *host) socket(op control.Op) *os.File {
	h.Helper()
	_, r, err := h.c.Call(op, nil, Memory{})
	require.NoError(h, err)
	h.Cleanup(func() { _ = r.Events.Close() })
	return r.Events
}

// Nothing comes to the device by an event socket: a descriptor among it would be
// the device's to close.
func TestEventSocketsGoOneWay(t *testing.T) {
	h := newRig(t, Config{}).host("h")
	for _, op := range []control.Op{control.OpCreateChannel, control.OpOpenEvents} {
		fd := int(h.socket(op).Fd())
		require.Equal(t, unix.EPIPE, unix.Sendmsg(fd, []byte{1}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL), "%v", op)
		require.Equal(t, unix.EPIPE, unix.Send(fd, []byte{1}, unix.MSG_NOSIGNAL), "%v", op)
	}
}

// The device's thread closes no event socket.
func TestEventSocketsAreClosedElsewhere(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	fds := []int{}
	h.socket(control.OpCreateChannel)
	for _, ch := range h.c.channels {
		fds = append(fds, ch.fd)
	}
	h.socket(control.OpOpenEvents)
	fds = append(fds, h.c.events)
	r.e.Do(func() { h.c.destroySome() })
	open := func(fd int) bool {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		return err == nil
	}
	for _, fd := range fds {
		require.True(t, open(fd), "the device's thread has closed it")
	}
	h.c.finish()
	for _, fd := range fds {
		require.False(t, open(fd))
	}
}
