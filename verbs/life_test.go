package verbs

import (
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A context lives as long as somebody has its socket, whoever that is.
func TestContextLivesAsLongAsItsSocket(t *testing.T) {
	s := newServing(t)
	a, b := s.rig(t), s.rig(t)
	p := a.program()
	p.ok(p.createCQ(15, 0))
	socket := duplicated(a, []*os.File{p.socket})[0]
	h, body, _ := b.request(opAdopt, 0, nil, socket)
	require.Zero(t, h.error)
	require.Equal(t, p.ctx, le.Uint64(body))

	a.p.end()
	_ = p.socket.Close()
	b.ok(b.ioctl(p.ctx, objDevice, 2, number(0, 1), arg{id: 1, out: 48}))
	_ = socket.Close()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.contexts) == 0
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, unix.EIO, b.ioctl(p.ctx, objDevice, 2, number(0, 1), arg{id: 1, out: 48}).errno)
	require.Empty(t, a.p.memory.extents)
}

// Who opens a device again finds what he had there gone.
func TestOpenBuriesWhatWasClosed(t *testing.T) {
	r := newRig(t)
	p := r.program()
	p.ok(p.createCQ(15, 0))
	_ = p.socket.Close()
	r.program()
	require.Len(t, r.p.contexts, 1)
	require.Empty(t, r.p.memory.extents)
}

// A socket that is no context is not taken for one.
func TestAdoptOfAnything(t *testing.T) {
	r := newRig(t)
	mine, theirs, err := pair("x")
	require.NoError(t, err)
	defer mine.Close()
	h, _, _ := r.request(opAdopt, 0, nil, theirs)
	require.Equal(t, int32(unix.ENOTTY), h.error)
	h, _, _ = r.request(opAdopt, 0, nil)
	require.Equal(t, int32(unix.EBADF), h.error)
}

// The answer to destroy says how many events were read; those that were not are
// taken back, and those of others stay.
func TestEventsAreCountedExactly(t *testing.T) {
	r := newRig(t)
	p := r.program()
	cq := p.ok(p.createCQ(15, 0)).value[0]
	first, second := p.ok(p.createQP(2, cq)).value[0], p.ok(p.createQP(2, cq)).value[0]
	x := r.s.contexts[p.ctx]
	a, b := x.objects[uint32(first)].self.(*qp), x.objects[uint32(second)].self.(*qp)
	b.events.element = 0xbeef
	for _, q := range []*qp{a, b, a, a} {
		x.translate(&control.Event{Kind: control.EventAccessError, Number: q.number})
	}
	reader := r.files[p.async]
	var got [16]byte
	n, err := unix.Read(int(reader.Fd()), got[:])
	require.NoError(t, err)
	require.Equal(t, 16, n)
	require.Equal(t, u64s(0xabcd, 3), got[:])
	destroyed := p.ok(p.ioctl(p.ctx, objQP, 1, arg{id: 0, data: first}, arg{id: 1, out: 4}))
	require.Equal(t, uint32(1), le.Uint32(destroyed.bytes[1]), "three were sent, one was read")
	n, err = unix.Read(int(reader.Fd()), got[:])
	require.NoError(t, err)
	require.Equal(t, 16, n)
	require.Equal(t, u64s(0xbeef, 3), got[:], "what is left is the other's")
	destroyed = p.ok(p.ioctl(p.ctx, objQP, 1, arg{id: 0, data: second}, arg{id: 1, out: 4}))
	require.Equal(t, uint32(1), le.Uint32(destroyed.bytes[1]))
}

// Channels are found by what their descriptors are, and go when nobody has them.
func TestChannels(t *testing.T) {
	r := newRig(t)
	p := r.program()
	make := func() uint64 {
		return uint64(le.Uint32(p.ok(p.write(p.ctx, 0x11, make([]byte, 8), 4)).bytes[1]))
	}
	channel := make()
	require.Equal(t, unix.EBADF, p.createCQ(15, 4711).errno, "no such descriptor")
	require.Equal(t, unix.EBADF, p.createCQ(15, p.async).errno, "a descriptor of something else")
	cq := p.ok(p.createCQ(15, channel)).value[0]
	x := r.s.contexts[p.ctx]
	_ = r.files[channel].Close()
	delete(r.files, channel)
	make()
	require.Len(t, x.channels, 2, "a CQ uses the first one")
	p.ok(p.ioctl(p.ctx, objCQ, 1, arg{id: 0, data: cq}, arg{id: 1, out: 8}))
	make()
	require.Len(t, x.channels, 2, "nobody has the first one any more")
}

// libmlx5 does not survive that a UAR page is refused.
func TestUARPagesDoNotRunOut(t *testing.T) {
	p := newRig(t).program()
	seen := map[uint32]int{p.uar: 1}
	var handles []uint64
	for range 3*uarPages - 1 {
		u := p.ok(p.ioctl(p.ctx, objUAR, 0x1000, arg{id: 0x1000}, number(0x1001, 0), arg{id: 0x1002, out: 8}, arg{id: 0x1003, out: 4}, arg{id: 0x1004, out: 4}))
		seen[le.Uint32(u.bytes[0x1004])]++
		handles = append(handles, u.value[0x1000])
	}
	require.Len(t, seen, uarPages)
	for page, n := range seen {
		require.Equal(t, 3, n, "page %d", page)
	}
	for _, h := range handles {
		p.ok(p.ioctl(p.ctx, objUAR, 0x1001, arg{id: 0x1000, data: h}))
	}
}
