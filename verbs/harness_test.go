package verbs

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A rig is a server, and a process that the server serves without a connection: the test acts
// as the shim.
type rig struct {
	testing.TB
	s     *Server
	p     *process
	tag   uint32
	files map[uint64]*os.File // the program's descriptors
	next  uint64
	refit bool // remapping by the shim fails
	loose bool // the shim seals no memory
}

// newServing returns a server without firmware commands; those of devx_*_test.go and umem_test.go have them.
func newServing(t testing.TB) *Server {
	t.Helper()
	return newServingWith(t, Config{NoDEVX: true})
}

func newServingWith(t testing.TB, cfg Config) *Server {
	t.Helper()
	e, err := engine.New(engine.Config{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- e.Run(ctx, func() { close(started) }) }()
	<-started
	cfg.Devices, cfg.Log = 2, slog.New(slog.NewTextHandler(testLog{t}, nil))
	s, err := newServer(nic.Of(e), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.closeAll()
		stop()
		require.NoError(t, <-ended)
		s.close()
	})
	return s
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newServing(t).rig(t)
}

// rig returns another process of a server. The server may not read the mappings of the
// process, so it assumes that the process has mapped what the shim was asked to map.
func (s *Server) rig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, s: s, p: s.newProcess(int32(os.Getpid()), uint32(os.Getuid()), nil), files: make(map[uint64]*os.File), next: 100}
	t.Cleanup(func() {
		s.syncWithContexts()
		for _, f := range r.files {
			_ = f.Close()
		}
		r.p.end()
	})
	h, body, _ := r.request(opHello, 0, append(helloBytes(), "test"...))
	require.Zero(t, h.error)
	require.Equal(t, uint32(2), le.Uint32(body[4:]))
	return r
}

// syncWithContexts puts what a test has read of contexts, without their locks, before their end,
// which another goroutine carries out when the last descriptor is closed.
func (s *Server) syncWithContexts() {
	var all []*uctx
	s.mu.Lock()
	for _, x := range s.contexts {
		all = append(all, x)
	}
	s.mu.Unlock()
	for _, x := range all {
		x.mu.Lock()
		_ = x.ended
		x.mu.Unlock()
	}
}

// connected returns the server's and the program's end of a connection.
func connected(t testing.TB) (conn *net.UnixConn, program *os.File) {
	t.Helper()
	mine, program, err := unixsock.Pair("connection")
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	c, err := net.FileConn(mine)
	require.NoError(t, err)
	_ = mine.Close()
	return c.(*net.UnixConn), program
}

// helloDatagram returns a whole request NV_HELLO with helloBytes as its body.
func helloDatagram() []byte { return finish(append(u64s(1, 24, 0), helloBytes()...)) }

// helloBytes returns an nv_hello, with a guard of this process.
func helloBytes() []byte {
	hello := append(u32s(wireMagic), wireMajor, 0, wireMinor, 0)
	return append(append(hello, u64s(0)...), u64s(procmem.VecOf(ownGuard()).Addr, le.Uint64(ownGuard()))...)
}

var ownGuard = sync.OnceValue(func() []byte {
	mem, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	_, _ = rand.Read(mem[:8])
	return mem
})

// request sends one datagram and returns the answer.
func (r *rig) request(op wireOp, context uint64, body []byte, files ...*os.File) (wireHeader, []byte, []*os.File) {
	r.Helper()
	r.tag++
	d := appendAnswer(nil, wireHeader{op: op, tag: r.tag, context: context}, 0, 0)
	le.PutUint16(d[2:], 0)
	var sent []nic.File
	for _, f := range files {
		sent = append(sent, f)
	}
	answer, give, err := r.p.handle(finish(append(d, body...)), sent)
	require.LessOrEqual(r, len(give), maxFDs)
	require.NoError(r, err)
	require.LessOrEqual(r, len(answer), maxDatagram)
	require.Equal(r, uint32(len(answer)), le.Uint32(answer[8:]))
	h := wireHeader{op: wireOp(le.Uint16(answer)), flags: le.Uint16(answer[2:]), error: int32(le.Uint32(answer[4:])), tag: le.Uint32(answer[12:]), context: le.Uint64(answer[16:])}
	require.Equal(r, op, h.op)
	require.Equal(r, r.tag, h.tag)
	return h, answer[headerSize:], give
}

// open opens a device and returns the context, and its socket.
func (r *rig) open(device uint32) (inode uint64, socket *os.File) {
	r.Helper()
	h, body, files := r.request(opOpen, 0, le.AppendUint64(nil, uint64(device)))
	require.Zero(r, h.error)
	require.Len(r, files, 1)
	inode = le.Uint64(body)
	r.next++
	r.files[r.next] = files[0]
	req := make([]byte, abi.MLX5AllocUcontextReqV2Size)
	le.PutUint64(req[abi.MLX5AllocUcontextReqV2LibCaps:], abi.MLX5LibCapDynUAR)
	if r.p.devx {
		le.PutUint32(req[abi.MLX5AllocUcontextReqV2Flags:], abi.MLX5AllocUctxDEVX)
	}
	r.ok(r.ioctl(inode, abi.ObjectDevice, abi.MethodGetContext, arg{id: abi.AttrUHWIn, in: req}, arg{id: abi.AttrUHWOut, out: abi.MLX5AllocUcontextRespSize}))
	return inode, files[0]
}

// tell sends the server the addresses of one interface, as the shim does. addresses are as in
// CIDR notation, each of an interface whose name comes before it.
func (r *rig) tell(addresses ...string) (tree string) {
	r.Helper()
	h, body, _ := r.request(opAddresses, 0, addressBytes(r, addresses...))
	require.Zero(r, h.error)
	require.Len(r, body, networkSize)
	return strings.TrimRight(string(body), "\x00")
}

// addressBytes returns a request NV_ADDRESSES without its header. Interfaces are numbered by
// the first digit in their names; lo is 1.
func addressBytes(t testing.TB, addresses ...string) []byte {
	t.Helper()
	b := append(u64s(0), u32s(uint32(len(addresses)/2), 0)...)
	for i := 0; i+1 < len(addresses); i += 2 {
		p := netip.MustParsePrefix(addresses[i+1])
		gid, index := p.Addr().As16(), uint32(1)
		if p.Addr().Is4() {
			gid[10], gid[11] = 0xff, 0xff
		}
		if at := strings.IndexAny(addresses[i], "0123456789"); at >= 0 {
			index = 2 + uint32(addresses[i][at]-'0')
		}
		b = append(append(b, gid[:]...), append([]byte(addresses[i]), make([]byte, maxIfname-len(addresses[i]))...)...)
		b = append(append(b, u32s(index)...), byte(p.Bits()), 0, 0, 0)
		b = append(b, u64s(0)...)
	}
	return b
}

// An arg is an attribute of a call that a test makes.
type arg struct {
	id       uint16
	in       []byte
	out      int
	data     uint64 // number of a handle or descriptor
	inline   bool   // data is a number of 8 bytes
	optional bool
}

func number(id uint16, v uint64) arg { return arg{id: id, data: v, inline: true} }

func word(id uint16, v uint32) arg { return arg{id: id, in: le.AppendUint32(nil, v)} }

// An answer is the result of a call.
type answer struct {
	errno unix.Errno
	bytes map[uint16][]byte
	value map[uint16]uint64 // handles, and numbers of descriptors
	again int
}

// ioctl makes a call, satisfies the needs of each answer, and repeats the call until an answer
// has no needs.
func (r *rig) ioctl(context uint64, object, method uint16, args ...arg) (c answer) {
	r.Helper()
	head := ioctlBytes(object, method, args...)
	var results []byte
	var count uint32
	var files []*os.File
	for {
		body := le.AppendUint64(nil, 0)
		body = le.AppendUint32(body, count)
		body = le.AppendUint32(body, uint32(abi.IoctlHdrSize+abi.AttrSize*len(args)))
		body = append(append(body, head...), results...)
		h, b, give := r.request(opIoctl, context, body, duplicated(r, files)...)
		if h.flags&flagAgain == 0 {
			c.errno = unix.Errno(h.error)
			if h.error == 0 || h.flags&flagFailed != 0 {
				r.outs(&c, b, args, give)
				at := c.bytes[abi.MLX5AttrUARObjAllocMmapOffset]
				if object == abi.MLX5ObjectUAR && at != nil && !r.loose { // as libmlx5 does for each UAR page
					r.mapUAR(context, le.Uint64(at))
				}
			}
			return c
		}
		c.again++
		require.Less(r, c.again, 4)
		n := le.Uint64(b)
		require.NotZero(r, n)
		for b = b[8:]; n > 0; n, b = n-1, b[needSize:] {
			kind, errno := le.Uint16(b[2:]), unix.Errno(0)
			switch kind {
			case needFD, needFDNumber:
				fd := le.Uint64(b[8:])
				if kind == needFD {
					fd = args[le.Uint16(b)].data
				}
				if f := r.files[fd]; f != nil {
					files = append(files, f)
				} else {
					errno = eBADF
				}
			case needRemap, needTryRemap:
				require.NotEmpty(r, give)
				require.Zero(r, le.Uint64(b[8:])%pageSize)
				r.seal(give[0])
				_ = give[0].Close()
				give = give[1:]
				if r.refit {
					errno = unix.EAGAIN
				}
			}
			results = append(results, b[:4]...)
			results = le.AppendUint32(results, uint32(errno))
			results = append(results, b[8:16]...)
			count++
		}
		require.Empty(r, give)
	}
}

func duplicated(r *rig, files []*os.File) []*os.File {
	copies, err := duplicates(files)
	require.NoError(r, err)
	return copies
}

// ioctlBytes returns a header and its attributes, and the bytes to which they point.
func ioctlBytes(object, method uint16, args ...arg) []byte {
	b := le.AppendUint16(nil, uint16(abi.IoctlHdrSize+abi.AttrSize*len(args)))
	b = le.AppendUint16(b, object)
	b = le.AppendUint16(b, method)
	b = le.AppendUint16(b, uint16(len(args)))
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(b, abi.DriverMLX5)
	b = le.AppendUint32(b, 0)
	var tail []byte
	for _, a := range args {
		n, data := len(a.in)+a.out, a.data
		if a.inline {
			n = 8
		}
		if len(a.in) > 0 && len(a.in) <= 8 {
			var w [8]byte
			copy(w[:], a.in)
			data = le.Uint64(w[:])
		}
		b = le.AppendUint16(b, a.id)
		b = le.AppendUint16(b, uint16(n))
		flags := uint32(abi.AttrFMandatory)
		if a.optional {
			flags = 0
		}
		b = le.AppendUint32(b, flags)
		b = le.AppendUint64(b, data)
		if n > 8 {
			tail = append(tail, a.in...)
			tail = append(tail, make([]byte, padded(n)-len(a.in))...)
		}
	}
	return append(b, tail...)
}

// outs performs the outs of an answer.
func (r *rig) outs(c *answer, b []byte, args []arg, give []*os.File) {
	r.Helper()
	c.bytes, c.value = make(map[uint16][]byte), make(map[uint16]uint64)
	numbers := make([]uint64, len(give))
	for i, f := range give {
		r.next++
		numbers[i], r.files[r.next] = r.next, f
	}
	n := le.Uint64(b)
	for b = b[8:]; n > 0; n-- {
		index, kind, length, value := le.Uint16(b), le.Uint16(b[2:]), int(le.Uint32(b[4:])), le.Uint64(b[8:])
		a := args[index]
		switch kind {
		case outBytes:
			require.LessOrEqual(r, length, a.out, "attribute %#x", a.id)
			c.bytes[a.id] = b[outSize : outSize+length]
		case outValue:
			c.value[a.id] = value
		case outFD:
			c.value[a.id] = numbers[value]
		case outFDInside:
			le.PutUint32(c.bytes[a.id][value&0xffffffff:], uint32(numbers[value>>32]))
		}
		b = b[outSize+padded(length):]
	}
	require.Empty(r, b)
}

// seal seals memory as the shim does after mapping it.
func (r *rig) seal(f *os.File) {
	r.Helper()
	if r.loose {
		return
	}
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	require.NoError(r, err)
	if seals&unix.F_SEAL_FUTURE_WRITE == 0 {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
		require.NoError(r, err)
	}
}

// share gives the process memory that is shared from the start (NV_ALLOC).
func (r *rig) share(addr, size uint64) *extent {
	r.Helper()
	m := le.AppendUint64(nil, addr)
	m = le.AppendUint64(m, size)
	h, _, files := r.request(opAlloc, 0, append(m, make([]byte, 16)...))
	require.Zero(r, h.error)
	require.Len(r, files, 1)
	r.seal(files[0])
	_ = files[0].Close()
	return r.p.memory.allocated(addr, size)
}

func u32s(v ...uint32) (b []byte) {
	for _, w := range v {
		b = le.AppendUint32(b, w)
	}
	return b
}

func u64s(v ...uint64) (b []byte) {
	for _, w := range v {
		b = le.AppendUint64(b, w)
	}
	return b
}

// testLog writes the server's log to the log of the test.
type testLog struct{ testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
