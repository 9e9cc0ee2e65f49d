package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hosted makes a host's client a hosted client, with the options x.
func (h *host) hosted(x nic.Hosted) *host {
	h.d.nic().FillHosted(&x)
	h.c.Hosted = x
	return h
}

// Unread events of a CQ are taken back and counted. Events of other CQs stay, in order.
func TestRetract(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	m, reply, err := a.c.Request(control.OpCreateChannel, nil, object.RequestMemory{})
	require.NoError(t, err)
	defer reply.Events.Close()
	id := m.(*control.Channel).ID
	one, two := a.cq(control.CQ{Channel: id, Handle: 1}), a.cq(control.CQ{Channel: id, Handle: 2})
	for _, c := range []*poller{one, two, one, one, two} {
		r.e.Do(func() { r.e.Fire(r.e.CQs[c.num]) })
	}
	read := func() (handle byte) {
		var b [8]byte
		conn, err := reply.Events.SyscallConn()
		require.NoError(t, err)
		_ = conn.Control(func(fd uintptr) { _, _, _ = unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT) })
		return b[0]
	}
	require.Equal(t, byte(1), read())
	require.Equal(t, uint32(1), a.c.Retract(one.num, reply.Events), "three were sent, one was read")
	require.Equal(t, byte(2), read())
	require.Equal(t, uint32(1), a.c.Retract(two.num, reply.Events))
	require.Zero(t, read())
	require.Zero(t, a.c.Retract(4711, reply.Events))
}

// Forsaken names a channel if its reading end is closed and no CQ uses it.
func TestForsaken(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	m, reply, err := a.c.Request(control.OpCreateChannel, nil, object.RequestMemory{})
	require.NoError(t, err)
	require.Empty(t, a.c.Forsaken())
	id := m.(*control.Channel).ID
	c := a.cq(control.CQ{Channel: id})
	require.NoError(t, reply.Events.Close())
	require.Empty(t, a.c.Forsaken())
	a.call(control.OpDestroyCQ, &control.CQN{CQN: c.num}, &control.Empty{})
	require.Equal(t, []uint32{id}, a.c.Forsaken())
}

// A channel with PlainChannels carries nothing but handles.
func TestPlainChannels(t *testing.T) {
	for _, plain := range []bool{false, true} {
		r := newRig(t, Config{})
		a := r.host("a").hosted(nic.Hosted{PlainChannels: plain})
		id, event := a.channel()
		c := a.cq(control.CQ{Channel: id, Handle: 5, LogSize: 0})
		p := a.qp(control.QP{NoReceive: 1}, c, c)
		p.up(p)
		p.post(ctrl(wqe.OpNop))
		p.post(ctrl(wqe.OpNop))
		r.settle()
		require.True(t, r.e.CQs[c.num].Dead)
		_, told := event()
		require.Equal(t, !plain, told)
	}
}

// Reregistered memory keeps its key if the client is hosted with SameKeys.
func TestSameKeys(t *testing.T) {
	for _, same := range []bool{false, true} {
		r := newRig(t, Config{})
		a := r.host("a").hosted(nic.Hosted{SameKeys: same})
		k := a.key(64, control.AccessLocalWrite)
		var ans control.Key
		a.call(control.OpReregMR, &control.ReregMR{Key: k.key, What: control.ReregAccess, Access: control.AccessAll &^ control.AccessZeroBased}, &ans)
		require.Equal(t, same, ans.Key == k.key)
		require.Equal(t, ans.Key, r.e.Keys.Find(ans.Key).Key)
	}
}

// A hosted client has the number of pages and the GID that its server asks for. Its memory is
// charged to its user.
func TestHostedClient(t *testing.T) {
	r := newRig(t, Config{})
	c, err := r.d.nic().NewHosted("x", 7, nic.Hosted{UARPages: 9, GID: [16]byte{1}})
	require.NoError(t, err)
	m, reply, err := c.Request(control.OpHello, control.Append(nil, control.OpHello, 0, 0, &control.Hello{Magic: control.Magic, Major: control.Major})[control.HeaderSize:], object.RequestMemory{})
	require.NoError(t, err)
	require.Equal(t, uint32(9), m.(*control.Welcome).UARPages)
	require.Equal(t, 9*4096, reply.UAR.Size())
	require.NotNil(t, reply.UAR.File())
	mem, err := r.d.nic().NewMemory(7, "x", 4096, shm.Create)
	require.NoError(t, err)
	require.NoError(t, r.d.nic().Charge(7, nic.Cost{Memory: 100, Descriptors: 2, Connections: 1}))
	r.d.nic().Refund(7, nic.Cost{Memory: 100, Descriptors: 2, Connections: 1})
	require.NoError(t, reply.UAR.Seal())
	require.NoError(t, mem.Seal())
	other, err := r.d.nic().NewMemory(7, "y", 4096, shm.Create)
	require.NoError(t, err)
	require.NoError(t, mem.Seal())
	require.NoError(t, other.Seal())
	require.Equal(t, 4, r.e.Ledger.Has(7)[quota.Descriptors])
	for range 2 { // the second time there is nothing to close
		c.ClosePageFiles()
		r.d.nic().CloseMemory(7, other)
		require.Equal(t, 1, r.e.Ledger.Has(7)[quota.Descriptors])
	}
	require.Nil(t, other.File())
	r.d.nic().FreeMemory(7, other)
	r.d.nic().FreeMemory(7, mem)
	require.NoError(t, c.Close())
	require.Zero(t, r.e.Ledger.Users(), "all of it has come back")
}

// After the events of a CQ have been taken back, because its program destroys the CQ, no more
// events are sent, even if the CQ was armed before.
func TestNothingIsSentAfterRetract(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	m, reply, err := a.c.Request(control.OpCreateChannel, nil, object.RequestMemory{})
	require.NoError(t, err)
	defer reply.Events.Close()
	c := a.cq(control.CQ{Channel: m.(*control.Channel).ID, Handle: 5})
	p := a.qp(control.QP{NoReceive: 1}, c, c)
	p.up(p)
	p.post(ctrl(wqe.OpNop))
	r.settle()
	c.arm(0, false)
	require.Zero(t, a.c.Retract(c.num, reply.Events))
	r.settle()
	require.Zero(t, r.e.CQs[c.num].Sent)
}

// Aside does not wait for a function that a user's program keeps from returning.
func TestAsideWaitsForNobody(t *testing.T) {
	r := newRig(t, Config{})
	hold, ended := make(chan struct{}), make(chan struct{})
	require.False(t, r.d.nic().Aside(7, func() { defer close(ended); <-hold }))
	require.True(t, r.d.nic().Aside(8, func() {}), "another user")
	close(hold)
	<-ended
}
