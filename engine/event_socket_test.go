package engine

import (
	"os"
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// socket makes a request that is answered with an event socket.
func (h *host) socket(op control.Op) *os.File {
	h.Helper()
	f, _ := h.socketAnd(op)
	return f
}

func (h *host) socketAnd(op control.Op) (*os.File, control.Message) {
	h.Helper()
	ans, r, err := h.c.Request(op, nil, object.RequestMemory{})
	require.NoError(h, err)
	h.Cleanup(func() { _ = r.Events.Close() })
	return r.Events, ans
}

// A client cannot send anything to the device through an event socket. Otherwise the device
// would have to close descriptors that a client sent.
func TestEventSocketsGoOneWay(t *testing.T) {
	h := newRig(t, Config{}).host("h")
	for _, op := range []control.Op{control.OpCreateChannel, control.OpOpenEvents} {
		fd := int(h.socket(op).Fd())
		require.Equal(t, unix.EPIPE, unix.Sendmsg(fd, []byte{1}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL), "%v", op)
		require.Equal(t, unix.EPIPE, unix.Send(fd, []byte{1}, unix.MSG_NOSIGNAL), "%v", op)
	}
}

// Event sockets are not closed on the device's thread.
func TestEventSocketsAreClosedElsewhere(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	fds := []int{}
	h.socket(control.OpCreateChannel)
	for _, ch := range h.c.Channels {
		fds = append(fds, ch.Out.FD)
	}
	h.socket(control.OpOpenEvents)
	fds = append(fds, h.c.Events.FD)
	r.e.Do(func() { h.c.DestroySome() })
	open := func(fd int) bool {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		return err == nil
	}
	for _, fd := range fds {
		require.True(t, open(fd), "the device's thread has closed it")
	}
	h.c.Finish()
	for _, fd := range fds {
		require.False(t, open(fd))
	}
}

// If a client closes its end of a channel before its queues are destroyed, further events do
// not count as lost, because the client does not want them.
func TestAClosedChannelIsNoLoss(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	events, ans := h.socketAnd(control.OpCreateChannel)
	c := h.cq(control.CQ{LogSize: 4, Channel: ans.(*control.Channel).ID})
	p := h.qp(control.QP{}, c, c)
	p.up(p)
	complete := func() {
		c.arm(uint32(c.ci), false)
		r.e.ObserveArm(r.e.CQs[c.num])
		p.post(ctrl(wqe.OpNop))
		r.e.Step()
		c.one()
	}
	complete()                         // one event stays unread
	require.NoError(t, events.Close()) // ECONNRESET, then EPIPE
	complete()
	complete()
	require.EqualValues(t, 1, h.c.Count[control.CounterEvents])
	require.Zero(t, h.c.Count[control.CounterExplained])
}
