package verbs

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// channel makes an event channel and returns the number of its descriptor, which does not block.
func (m *maker) channel(flags uint64) uint64 {
	m.Helper()
	a := m.ok(m.ioctl(m.ctx, abi.MLX5ObjectDEVXAsyncEventFD, abi.MLX5MethodDEVXAsyncEventFDAlloc,
		arg{id: abi.MLX5AttrDEVXAsyncEventFDAllocHandle}, number(abi.MLX5AttrDEVXAsyncEventFDAllocFlags, flags)))
	return m.nonblocking(a.value[abi.MLX5AttrDEVXAsyncEventFDAllocHandle])
}

func (m *maker) nonblocking(fd uint64) uint64 {
	m.Helper()
	require.NoError(m, unix.SetNonblock(int(m.files[fd].Fd()), true))
	return fd
}

// descriptor gives the program another descriptor.
func (m *maker) descriptor(fd int, err error) uint64 {
	m.Helper()
	require.NoError(m, err)
	m.next++
	m.files[m.next] = os.NewFile(uintptr(fd), "test")
	return m.next
}

// subscribe subscribes a channel to events of an object, or of the device (0).
func (m *maker) subscribe(channel, object uint64, events []uint16, more ...arg) unix.Errno {
	m.Helper()
	var list []byte
	for _, e := range events {
		list = le.AppendUint16(list, e)
	}
	return m.subscribeBytes(channel, object, list, more...)
}

func (m *maker) subscribeBytes(channel, object uint64, list []byte, more ...arg) unix.Errno {
	m.Helper()
	args := append([]arg{{id: abi.MLX5AttrDEVXSubscribeEventFDHandle, data: channel},
		{id: abi.MLX5AttrDEVXSubscribeEventTypeNumList, in: list}}, more...)
	if object != 0 {
		args = append(args, arg{id: abi.MLX5AttrDEVXSubscribeEventObjHandle, data: object})
	}
	return m.ioctl(m.ctx, abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXSubscribeEvent, args...).errno
}

func withCookie(cookie uint64) arg {
	return arg{id: abi.MLX5AttrDEVXSubscribeEventCookie, in: u64s(cookie)}
}

func withEventfd(fd uint64) arg { return word(abi.MLX5AttrDEVXSubscribeEventFDNum, uint32(fd)) }

// read returns what one read of a descriptor returns, nothing if the read would have to wait.
func (m *maker) read(fd uint64, room int) []byte {
	m.Helper()
	b := make([]byte, room)
	n, err := unix.Read(int(m.files[fd].Fd()), b)
	if err == unix.EAGAIN {
		return nil
	}
	require.NoError(m, err)
	return b[:n]
}

// queues makes a CQ, an RMP and a queue pair.
func (m *maker) queues() (cq, rmp, qp uint64, numbers [3]uint32) {
	m.Helper()
	cq, numbers[0] = m.made(m.cqCommand(), devx.NewCQN)
	rmp, numbers[1] = m.made(m.rmpCommand(), devx.NewRMPN)
	qp, numbers[2] = m.made(m.qpCommand(numbers[0]), devx.NewQPN)
	return cq, rmp, qp, numbers
}

// The bytes of an event: the cookie, and struct mlx5_eqe of Linux include/linux/mlx5/device.h with the type
// at byte 1, the subtype at 3, and from byte 32 on: struct mlx5_eqe_qp_srq and mlx5_eqe_comp (number at 24),
// mlx5_eqe_cq_err (number at 0, syndrome at 11), mlx5_eqe_port_state (port at 8, in the upper four bits).
func TestEventsHaveTheBytesOfTheKernel(t *testing.T) {
	m := newMaker(t)
	cq, rmp, qp, n := m.queues()
	channel := m.channel(0)
	for _, e := range []struct {
		object uint64
		kind   control.EventKind
		number uint32
		event  uint16
		eqe    string // without the zeros at the end of words that are left out: offset, bytes
	}{
		{qp, control.EventLastWQE, n[2], 0x13, "01:13 39:QPN"}, {qp, control.EventAccessError, n[2], 0x11, "01:11 39:QPN"},
		{qp, control.EventInvalidRequest, n[2], 0x10, "01:10 39:QPN"}, {qp, control.EventEstablished, n[2], 0x02, "01:02 39:QPN"},
		{qp, control.EventDrained, n[2], 0x03, "01:03 39:QPN"}, {rmp, control.EventSRQLimit, n[1], 0x14, "01:14 39:RMP"},
		{cq, control.EventCQError, n[0], 0x04, "01:04 21:CQN 2b:01"},
		{0, control.EventPortError, 1, 0x09, "01:09 03:01 28:10"}, {0, control.EventPortActive, 1, 0x09, "01:09 03:04 28:10"},
		{0, control.EventLIDChange, 1, 0x09, "01:09 03:06 28:10"}, {0, control.EventPKeyChange, 1, 0x09, "01:09 03:07 28:10"},
		{0, control.EventReregister, 1, 0x09, "01:09 03:09 28:10"}, {qp, control.EventQPFatal, n[2], 0x05, "01:05 39:QPN"},
		{rmp, control.EventSRQError, n[1], 0x12, "01:12 39:RMP"},
	} {
		if e.object != 0 || e.kind == control.EventPortError {
			require.Zero(t, m.subscribe(channel, e.object, []uint16{e.event}, withCookie(0x1122334455667788)))
		}
		m.context().translate(&control.Event{Kind: e.kind, Number: e.number})
		want := append(u64s(0x1122334455667788), make([]byte, 64)...)
		for _, field := range strings.Fields(e.eqe) {
			at, value, _ := strings.Cut(field, ":")
			for i, name := range []string{"CQN", "RMP", "QPN"} {
				if value == name {
					value = hex.EncodeToString([]byte{byte(n[i] >> 16), byte(n[i] >> 8), byte(n[i])})
				}
			}
			offset, err := hex.DecodeString(at)
			require.NoError(t, err)
			bytes, err := hex.DecodeString(value)
			require.NoError(t, err)
			copy(want[8+int(offset[0]):], bytes)
		}
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(m.read(channel, 256)), "%v", e.kind)
		require.Nil(t, m.read(channel, 256))
	}
}

// An asynchronous event of an object of firmware commands does not come by the verbs; one of an object of the
// verbs comes both ways.
func TestEventsOfWhichWay(t *testing.T) {
	m := newMaker(t)
	_, _, made, n := m.queues()
	h := m.ok(m.program.createQP(abi.QPTRC, m.ok(m.createCQ(15, 0)).value[0])).value[0]
	x := m.context()
	m.nonblocking(m.async)
	channel := m.channel(1)
	require.Zero(t, m.subscribe(channel, made, []uint16{eventLastWQE}, withCookie(1)))
	require.Zero(t, m.subscribe(channel, h, []uint16{eventLastWQE}, withCookie(2)))
	x.translate(&control.Event{Kind: control.EventLastWQE, Number: n[2]})
	require.Equal(t, u64s(1), m.read(channel, 256))
	require.Nil(t, m.read(m.async, 256))
	x.translate(&control.Event{Kind: control.EventLastWQE, Number: x.objects[uint32(h)].self.(*qp).number})
	require.Equal(t, u64s(2), m.read(channel, 256))
	require.Len(t, m.read(m.async, 256), abi.AsyncEventDescSize)
}

// In a channel without entries, each subscription has at most one unread event, in the order in which the
// events came.
func TestEventsWithoutEntriesAreMerged(t *testing.T) {
	m := newMaker(t)
	_, _, h, n := m.queues()
	x, channel := m.context(), m.channel(1)
	require.Zero(t, m.subscribe(channel, h, []uint16{eventLastWQE}, withCookie(1)))
	require.Zero(t, m.subscribe(channel, h, []uint16{eventAccess}, withCookie(2)))
	last := &control.Event{Kind: control.EventLastWQE, Number: n[2]}
	access := &control.Event{Kind: control.EventAccessError, Number: n[2]}
	for range 3 {
		for _, ev := range []*control.Event{last, last, access, last, access} {
			x.translate(ev)
		}
		require.Equal(t, u64s(1), m.read(channel, 72))
		x.translate(access)
		x.translate(last) // its event was read
		require.Equal(t, u64s(2), m.read(channel, 72))
		require.Equal(t, u64s(1), m.read(channel, 72))
		require.Nil(t, m.read(channel, 72))
	}
}

// A channel that the program does not read keeps one event of each subscription, however small the socket
// is, and a bounded number with entries. Nothing waits for the program.
func TestEventsThatAreNotRead(t *testing.T) {
	m := newMaker(t)
	_, _, h, n := m.queues()
	x, brief, whole := m.context(), m.channel(1), m.channel(0)
	kinds := []control.EventKind{control.EventLastWQE, control.EventAccessError, control.EventInvalidRequest,
		control.EventEstablished, control.EventDrained, control.EventSRQLimit}
	want := make(map[uint64]bool)
	for i, kind := range kinds[:5] {
		for n := range 100 {
			cookie := uint64(i<<8 | n)
			want[cookie] = true
			require.Zero(t, m.subscribe(brief, h, []uint16{uint16(kind)}, withCookie(cookie)))
		}
	}
	require.Len(t, want, 500, "more than fit into the socket")
	for range 3 {
		for _, kind := range kinds {
			x.translate(&control.Event{Kind: kind, Number: n[2]})
		}
	}
	got := make(map[uint64]bool)
	await.Until(t, "each is read", func() bool {
		for b := m.read(brief, 72); b != nil; b = m.read(brief, 72) {
			require.False(t, got[le.Uint64(b)], "cookie %#x was read twice", le.Uint64(b))
			got[le.Uint64(b)] = true
		}
		return len(got) >= len(want)
	})
	require.Equal(t, want, got)

	require.Zero(t, m.subscribe(whole, h, []uint16{eventLastWQE}, withCookie(1)))
	for range 4 * mostWaiting {
		x.translate(&control.Event{Kind: control.EventLastWQE, Number: n[2]})
	}
	f := x.channelOf(x.subs.channels, cookieFrom(t, m.files[whole]))
	f.mu.Lock()
	require.Len(t, f.waiting, mostWaiting)
	fit := int(f.sent)
	f.mu.Unlock()
	read := 0
	await.Until(t, "all that waited is read", func() bool {
		for m.read(whole, 72) != nil {
			read++
		}
		return read >= fit+mostWaiting
	})
	x.translate(&control.Event{Kind: control.EventLastWQE, Number: n[2]})
	await.Until(t, "an event comes again", func() bool { return m.read(whole, 72) != nil })
}

func cookieFrom(t *testing.T, f *os.File) uint64 {
	cookie, err := cookieOf(f)
	require.NoError(t, err)
	return cookie
}

// An eventfd counts events. One that is full keeps neither the server nor other subscriptions waiting, and
// what is none is refused.
func TestEventfds(t *testing.T) {
	m := newMaker(t)
	_, _, h, n := m.queues()
	x, channel := m.context(), m.channel(1)
	counter, full := m.descriptor(unix.Eventfd(0, unix.EFD_NONBLOCK)), m.descriptor(unix.Eventfd(0, 0))
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe(pipe))
	for _, fd := range []uint64{m.descriptor(pipe[0], nil), m.descriptor(pipe[1], nil), channel, m.async} {
		require.Equal(t, unix.EINVAL, m.subscribe(channel, h, []uint16{eventLastWQE}, withEventfd(fd)))
	}
	require.Equal(t, unix.EBADF, m.subscribe(channel, h, []uint16{eventLastWQE}, withEventfd(4711)))
	require.Equal(t, unix.EINVAL, m.subscribe(channel, h, []uint16{eventLastWQE}, withEventfd(counter), withCookie(1)))
	require.Zero(t, x.subs.count)

	_, err := unix.Write(int(m.files[full].Fd()), u64s(1<<64-2))
	require.NoError(t, err)
	require.Zero(t, m.subscribe(channel, h, []uint16{eventLastWQE}, withEventfd(full)))
	require.Zero(t, m.subscribe(channel, h, []uint16{eventLastWQE, eventAccess}, withEventfd(counter)))
	for range 5 {
		x.translate(&control.Event{Kind: control.EventLastWQE, Number: n[2]})
		x.translate(&control.Event{Kind: control.EventAccessError, Number: n[2]})
	}
	sum := uint64(0)
	await.Until(t, "ten events are counted", func() bool {
		if b := m.read(counter, 8); b != nil {
			sum += le.Uint64(b)
		}
		return sum == 10
	})
	require.Equal(t, u64s(1<<64-2), m.read(full, 8))
	require.Nil(t, m.read(channel, 72))
}

// Subscriptions end with their object, with their channel and with the context, and are no longer charged.
func TestSubscriptionsEnd(t *testing.T) {
	m := newMaker(t)
	x := m.context()
	before := x.cost
	_, err := x.devxChannel()
	require.NoError(t, err)
	cq, rmp, h, n := m.queues()
	channel := m.channel(0)
	counter := m.descriptor(unix.Eventfd(0, unix.EFD_NONBLOCK))
	objects := x.cost
	for _, o := range []uint64{cq, rmp, h} {
		require.Zero(t, m.subscribe(channel, o, []uint16{eventLastWQE, eventAccess, eventCQError}))
		require.Zero(t, m.subscribe(channel, o, []uint16{eventSRQLimit}, withEventfd(counter)))
	}
	require.Zero(t, m.subscribe(channel, 0, []uint16{eventPortChange}))
	require.Equal(t, 13, x.subs.count)
	require.Equal(t, objects.Descriptors+3, x.cost.Descriptors)
	x.translate(&control.Event{Kind: control.EventLastWQE, Number: n[2]})
	require.Zero(t, m.destroy(h))
	require.Equal(t, 9, x.subs.count)
	x.translate(&control.Event{Kind: control.EventLastWQE, Number: n[2]})
	require.Len(t, m.read(channel, 256), 72, "what came before is still there")
	require.Nil(t, m.read(channel, 256))
	require.Equal(t, unix.ENOENT, m.subscribe(channel, h, []uint16{eventLastWQE}))

	_ = m.files[channel].Close()
	delete(m.files, channel)
	await.Until(t, "the subscriptions of the channel end", func() bool {
		x.subs.mu.Lock()
		defer x.subs.mu.Unlock()
		return x.subs.count == 0 && len(x.subs.subscriptions) == 0 && len(x.subs.channels) == 0
	})
	require.Zero(t, m.destroy(rmp))
	require.Zero(t, m.destroy(cq))
	x.mu.Lock()
	require.Equal(t, before.Plus(channelCost), x.cost)
	x.mu.Unlock()
}

// Subscriptions that are not possible are refused, and change nothing.
func TestSubscriptionMistakes(t *testing.T) {
	m := newMaker(t)
	_, _, h, _ := m.queues()
	ofVerbs := m.ok(m.createCQ(15, 0)).value[0]
	x, channel := m.context(), m.channel(0)
	other := m.rig.maker()
	m.files[9999] = other.files[other.channel(0)]
	defer delete(m.files, 9999)
	for _, bad := range []struct {
		what            string
		channel, object uint64
		list            []byte
		want            unix.Errno
	}{
		{"half a number", channel, h, []byte{0x13}, unix.EINVAL},
		{"one number and a half", channel, h, []byte{0x13, 0, 0x13}, unix.EINVAL},
		{"seventeen numbers", channel, h, make([]byte, 34), unix.EINVAL},
		{"an event of the device", channel, h, []byte{eventPortChange, 0}, unix.EINVAL},
		{"an event of an object, of none", channel, 0, []byte{eventLastWQE, 0}, unix.EINVAL},
		{"an unknown event", channel, h, []byte{0x13, 1}, unix.EINVAL},
		{"completions of a CQ of the verbs", channel, ofVerbs, []byte{0, 0}, unix.EINVAL},
		{"a PD", channel, uint64(m.pd), []byte{0x13, 0}, unix.EINVAL},
		{"no object", channel, 4711, []byte{0x13, 0}, unix.ENOENT},
		{"no descriptor", 4711, h, []byte{0x13, 0}, unix.EBADF},
		{"another kind of descriptor", m.async, h, []byte{0x13, 0}, unix.EBADF},
		{"a channel of another context", 9999, h, []byte{0x13, 0}, unix.EBADF},
	} {
		require.Equal(t, bad.want, m.subscribeBytes(bad.channel, bad.object, bad.list), bad.what)
		require.Zero(t, x.subs.count, bad.what)
	}
	for range maxSubscriptions / maxEventNumbers { // all to one event
		require.Zero(t, m.subscribeBytes(channel, h, make([]byte, 2*maxEventNumbers)))
	}
	cost := x.cost
	require.Equal(t, unix.ENOMEM, m.subscribe(channel, h, []uint16{eventLastWQE, eventCompletion}))
	require.Equal(t, maxSubscriptions, x.subs.count)
	require.Equal(t, cost, x.cost)
	x.devx = false
	require.Equal(t, unix.EPROTONOSUPPORT, m.subscribe(channel, h, []uint16{eventLastWQE}))
}

// An answer comes by a descriptor, behind the program's number, also if the command fails; and when the
// program reads none, the next query is refused.
func TestQueryLater(t *testing.T) {
	m := newMaker(t)
	_, _, h, n := m.queues()
	a := m.ok(m.ioctl(m.ctx, abi.MLX5ObjectDEVXAsyncCmdFD, abi.MLX5MethodDEVXAsyncCmdFDAlloc,
		arg{id: abi.MLX5AttrDEVXAsyncCmdFDAllocHandle}))
	fd := m.nonblocking(a.value[abi.MLX5AttrDEVXAsyncCmdFDAllocHandle])
	ask := func(id uint64, room uint64) unix.Errno {
		return m.ioctl(m.ctx, abi.MLX5ObjectDEVXObj, abi.MLX5MethodDEVXObjAsyncQuery,
			arg{id: abi.MLX5AttrDEVXObjQueryAsyncHandle, data: h},
			arg{id: abi.MLX5AttrDEVXObjQueryAsyncCmdIn, in: mailbox(devx.OpQueryQP, devx.QPN, n[2])},
			arg{id: abi.MLX5AttrDEVXObjQueryAsyncFD, data: fd}, arg{id: abi.MLX5AttrDEVXObjQueryAsyncWRID, in: u64s(id)},
			number(abi.MLX5AttrDEVXObjQueryAsyncOutLen, room)).errno
	}
	require.Zero(t, ask(7, 272))
	require.Equal(t, append(u64s(7), m.query(h, n[2])...), m.read(fd, 4096))
	require.Zero(t, ask(8, 64))
	b := m.read(fd, 4096)
	require.Len(t, b, 8+64)
	require.Equal(t, uint64(8), le.Uint64(b))
	require.Equal(t, devx.StatusBadOutputLength, devx.Status(b[8]))
	unread := 0
	for ; ask(uint64(unread), 272) == 0; unread++ {
		require.Less(t, unread, 10000)
	}
	require.Equal(t, unix.EAGAIN, ask(0, 272))
	for i := range unread {
		require.Equal(t, uint64(i), le.Uint64(m.read(fd, 4096)))
	}
	require.Zero(t, ask(9, 272))
}
