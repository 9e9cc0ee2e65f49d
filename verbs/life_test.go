package verbs

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A context lives as long as any process has a copy of its socket.
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
	b.ok(b.queryPort(p.ctx))
	_ = socket.Close()
	await.Until(t, "the context ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.contexts) == 0
	})
	require.Equal(t, unix.EIO, b.queryPort(p.ctx).errno)
	require.Empty(t, a.p.memory.extents)
}

// A program that has closed a device and opens it again finds that its old objects are gone.
func TestOpenBuriesWhatWasClosed(t *testing.T) {
	r := newRig(t)
	p := r.program()
	p.ok(p.createCQ(15, 0))
	_ = p.socket.Close()
	r.program()
	require.Len(t, r.p.contexts, 1)
	require.Empty(t, r.p.memory.extents)
}

// A socket that is no context is not adopted.
func TestAdoptOfAnything(t *testing.T) {
	r := newRig(t)
	mine, theirs, err := unixsock.Pair("x")
	require.NoError(t, err)
	defer mine.Close()
	h, _, _ := r.request(opAdopt, 0, nil, theirs)
	require.Equal(t, int32(unix.ENOTTY), h.error)
	h, _, _ = r.request(opAdopt, 0, nil)
	require.Equal(t, int32(unix.EBADF), h.error)
}

// A file with the inode number of a context's socket is not taken for the socket: a file
// system that a program serves can give its files any number.
func TestAdoptOfAFileWithTheNumberOfAContext(t *testing.T) {
	s := newServing(t)
	victim, thief := s.rig(t), s.rig(t)
	p := victim.program()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	inode, err := inodeOf(file)
	require.NoError(t, err)

	s.mu.Lock()
	s.contexts[inode] = s.contexts[p.ctx]
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.contexts, inode)
		s.mu.Unlock()
	}()
	h, _, _ := thief.request(opAdopt, 0, nil, file)
	require.Equal(t, int32(unix.ENOTTY), h.error)
	require.Empty(t, thief.p.contexts)
}

// Adopted contexts are dropped when they have ended.
func TestAdoptForgetsWhatHasEnded(t *testing.T) {
	s := newServing(t)
	a, b := s.rig(t), s.rig(t)
	for range 3 {
		_, socket := a.open(0)
		h, _, _ := b.request(opAdopt, 0, nil, socket)
		require.Zero(t, h.error)
		require.Len(t, b.p.contexts, 1)
		_ = socket.Close()
	}
}

// The server does not read what a program writes to its device. It would have to close
// descriptors that the program has sent, which can block for as long as the program likes.
func TestContextsTakeNothing(t *testing.T) {
	r := newRig(t)
	ctx, socket := r.open(0)
	require.NoError(t, unixsock.Control(socket, func(fd int) error {
		require.Equal(t, unix.EPIPE, unix.Sendmsg(fd, []byte{1}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT))
		return nil
	}))
	r.ok(r.queryPort(ctx))
}

// A context that is being made when the server ends is not left behind.
func TestNoContextAfterTheEnd(t *testing.T) {
	r := newRig(t)
	r.s.closeAll()
	h, _, files := r.request(opOpen, 0, make([]byte, openSize))
	require.Equal(t, int32(unix.EIO), h.error)
	require.Empty(t, files)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	require.Empty(t, r.s.contexts)
}

// Everything that was charged for a context is refunded at its end.
func TestContextsGiveBack(t *testing.T) {
	r := newRig(t)
	p := r.program()
	p.ok(p.createCQ(15, 0))
	p.ok(p.createChannel())
	p.context().end()
	most := nic.Cost{Memory: 1 << 29, Connections: 1 << 11} // one user's limit: half of all
	require.NoError(t, p.s.engine.Charge(p.p.uid, most))
	p.s.engine.Refund(p.p.uid, most)
}

// Every descriptor of the server is charged to a user.
func TestDescriptorsAreCharged(t *testing.T) {
	// Making its memory starts the process that seals memory, which needs descriptors.
	first := newRig(t).program()
	first.ok(first.createCQ(15, 0))
	var held, charged int
	device := 2 // of the device: one socket for each kind of events; pages and memory in use have none
	if shm.CanBarrier() {
		device++ // the eventfd that wakes it
	}
	// One exact count is a proof: descriptors of earlier tests that are being closed can disturb the others.
	for range 10 {
		r := newRig(t)
		before := descriptors(t)
		p := r.program()
		channel := uint64(le.Uint32(p.ok(p.createChannel()).bytes[abi.AttrCoreOut]))
		p.ok(p.createCQ(15, channel))
		held, charged = descriptors(t)-before-len(r.files), device+p.context().cost.Descriptors
		if held == charged {
			return
		}
	}
	t.Fatalf("%d descriptors are held, %d are charged", held, charged)
}

// A program registers shared memory, unmaps it, and maps other memory at the same address,
// while the key still exists. A new registration at this address is for the new memory, and
// the shared memory is freed when the old key is.
func TestMemoryMappedAnewUnderAKey(t *testing.T) {
	r := newRig(t)
	p := r.program()
	mem, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(mem) }()
	at := procmem.VecOf(mem).Addr
	reg := func() (handle uint32) {
		const access = abi.AccessLocalWrite | abi.AccessRemoteWrite | abi.AccessRemoteRead
		return le.Uint32(p.ok(p.regMR(at, pageSize, at, p.pd, access)).bytes[abi.AttrCoreOut])
	}
	dereg := func(h uint32) { p.ok(p.deregMR(uint64(h))) }
	e := r.share(at, pageSize)
	was := reg() // key of the shared memory, which the server assumes to be mapped there
	require.Equal(t, 2, e.holders)
	h, _, _ := r.request(opFree, 0, append(u64s(at, pageSize), make([]byte, 16)...))
	require.Zero(t, h.error)
	r.p.memory.maps = openMaps(int32(os.Getpid()))
	is := reg()
	require.Equal(t, 1, e.holders)

	dereg(was)
	require.Empty(t, r.p.memory.extents)
	other, err := r.p.memory.make("test", at, pageSize)
	require.NoError(t, err)
	defer r.p.memory.discard(other)
	require.NoError(t, other.mem.Seal())
	x := p.context()
	id, err := x.addRegion(other)
	require.NoError(t, err, "its region is gone")
	x.dropRegion(id)
	dereg(is)
}

// The answer to destroying an object says how many of its events were read. Its unread events
// are taken back, and the events of other objects stay.
func TestEventsAreCountedExactly(t *testing.T) {
	r := newRig(t)
	p := r.program()
	cq := p.ok(p.createCQ(15, 0)).value[0]
	first, second := p.ok(p.createQP(abi.QPTRC, cq)).value[0], p.ok(p.createQP(abi.QPTRC, cq)).value[0]
	x := p.context()
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
	destroyed := p.ok(p.destroyQP(first))
	require.Equal(t, uint32(1), le.Uint32(destroyed.bytes[abi.AttrCoreOut]), "three were sent, one was read")
	n, err = unix.Read(int(reader.Fd()), got[:])
	require.NoError(t, err)
	require.Equal(t, 16, n)
	require.Equal(t, u64s(0xbeef, 3), got[:], "what is left is the other's")
	destroyed = p.ok(p.destroyQP(second))
	require.Equal(t, uint32(1), le.Uint32(destroyed.bytes[abi.AttrCoreOut]))
}

// A channel is identified by its socket, and ends when its last descriptor is closed.
func TestChannels(t *testing.T) {
	r := newRig(t)
	p := r.program()
	make := func() uint64 {
		return uint64(le.Uint32(p.ok(p.createChannel()).bytes[abi.AttrCoreOut]))
	}
	channel := make()
	require.Equal(t, unix.EBADF, p.createCQ(15, 4711).errno, "no such descriptor")
	require.Equal(t, unix.EBADF, p.createCQ(15, p.async).errno, "a descriptor of something else")
	cq := p.ok(p.createCQ(15, channel)).value[0]
	x := p.context()
	_ = r.files[channel].Close()
	delete(r.files, channel)
	make()
	require.Len(t, x.channels, 2, "a CQ uses the first one")
	p.ok(p.destroyCQ(cq))
	make()
	require.Len(t, x.channels, 2, "the first one has no descriptor any more")
}

// A program can allocate any number of UAR pages, because libmlx5 crashes if one is refused.
func TestUARPagesDoNotRunOut(t *testing.T) {
	p := newRig(t).program()
	seen := map[uint32]int{p.uar: 1}
	var handles []uint64
	for range 3*uarPages - 1 {
		u := p.ok(p.allocUAR(p.ctx))
		seen[le.Uint32(u.bytes[abi.MLX5AttrUARObjAllocPageID])]++
		handles = append(handles, u.value[abi.MLX5AttrUARObjAllocHandle])
	}
	require.Len(t, seen, uarPages)
	for page, n := range seen {
		require.Equal(t, 3, n, "page %d", page)
	}
	for _, h := range handles {
		p.ok(p.ioctl(p.ctx, abi.MLX5ObjectUAR, abi.MLX5MethodUARObjDestroy, arg{id: abi.MLX5AttrUARObjDestroyHandle, data: h}))
	}
}
