package check

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var le = binary.LittleEndian

// Constants of wire.h.
const (
	opHello, opOpen, opAdopt, opIoctl, opMmap, opAlloc, opFree, opAddresses = 1, 2, 3, 4, 5, 6, 7, 8

	headerSize  = 24
	answerFlag  = 1
	againFlag   = 2
	maxDatagram = 128 << 10
	outBytes    = 1
	outValue    = 2
	outFD       = 3
	outFDInside = 4
	needFD      = 1
	needRemap   = 2
	hasUFFD     = 2
	ioctlHeader = 24
	attrSize    = 16
	resultSize  = 16
	gone        = 0x7f8     // offset in the memory of the UAR pages (NV_GONE)
	registers   = 0x1000000 // mmap offset of the first UAR page
	deviceMajor = 231
	deviceMinor = 192
)

// A fake is a server with one device, which has the ioctls of programs/try.h.
type fake struct {
	dir      string
	listener *net.UnixListener
	major    uint16 // version that it speaks
	minor    uint16

	mu       sync.Mutex
	hellos   []hello
	contexts map[uint64]*deviceContext
	opens    int
	adopted  uint64
	told     []byte         // the addresses that the last program has sent
	root     string         // directory of the tree for programs, below dir
	memories map[uint64]int // descriptors of the memory that NV_ALLOC has made, by address
	ended    sync.WaitGroup
}

type hello struct {
	magic, wants  uint32
	name          string
	guard, cookie uint64
}

type deviceContext struct {
	calls  uint64
	memory int    // descriptor of the memory of the last mapping or remapping
	base   int64  // offset of the part of memory that is used
	shared []byte // the UAR pages, after they were sent
}

// A peer is one connection.
type peer struct {
	*fake
	conn *net.UnixConn
}

// An ask is a request with its descriptors.
type ask struct {
	op      uint16
	context uint64
	body    []byte
	fds     []int
}

// A reply is an answer. Its descriptors are closed after they were sent.
type reply struct {
	flags uint16
	errno unix.Errno
	body  []byte
	fds   []int
	keep  bool // the descriptors are not closed after they were sent
}

func serve(t *testing.T) *fake { return serveVersion(t, 2, 0) }

func serveVersion(t *testing.T, major, minor uint16) *fake {
	t.Helper()
	f := &fake{dir: filepath.Join(t.TempDir(), "v"), major: major, minor: minor,
		contexts: make(map[uint64]*deviceContext), memories: make(map[uint64]int)}
	tree(t, f.dir)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(f.dir, "server.sock"), Net: "unixpacket"})
	require.NoError(t, err)
	f.listener = l
	f.ended.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			f.ended.Go(func() { (&peer{f, conn}).run() })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.ended.Wait()
	})
	return f
}

func (f *fake) greetings() []hello {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.hellos)
}

// tree writes the files that programs read below /sys.
func tree(t *testing.T, dir string) {
	t.Helper()
	device := "sys/devices/pci0000:5a/0000:5a:00.0"
	for name, text := range map[string]string{
		"sys/class/infiniband_verbs/abi_version":          "6\n",
		"sys/class/infiniband_verbs/uverbs0/ibdev":        "nicless0\n",
		"sys/class/infiniband_verbs/uverbs0/dev":          "231:192\n",
		"dev/infiniband/uverbs0":                          "231:192\n",
		device + "/vendor":                                "0x15b3\n",
		device + "/infiniband/nicless0/node_type":         "1: CA\n",
		device + "/infiniband/nicless0/ports/1/gids/0":    "fe80::\n",
		device + "/infiniband/nicless0/ports/1/gids/1":    "fe80::1\n",
		device + "/infiniband/nicless0/ports/1/gids/keep": "\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o444))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sys/class/infiniband"), 0o755))
	require.NoError(t, os.Symlink("../../devices/pci0000:5a/0000:5a:00.0/infiniband/nicless0",
		filepath.Join(dir, "sys/class/infiniband/nicless0")))
	require.NoError(t, os.Symlink("../..", filepath.Join(dir, device, "infiniband/nicless0/device")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sys/bus/pci/devices"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sys/bus/pci/drivers/nicless"), 0o755))
	require.NoError(t, os.Symlink("../../../devices/pci0000:5a/0000:5a:00.0", filepath.Join(dir, "sys/bus/pci/devices/0000:5a:00.0")))
}

func (p *peer) run() {
	defer func() { _ = p.conn.Close() }()
	buf, oob := make([]byte, maxDatagram+1), make([]byte, unix.CmsgSpace(4*8))
	for {
		n, oobn, _, _, err := p.conn.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		if n < headerSize || int(le.Uint32(buf[8:])) != n {
			return // not a datagram of wire.h
		}
		q := ask{op: le.Uint16(buf), context: le.Uint64(buf[16:]), body: buf[headerSize:n]}
		if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
			for _, m := range messages {
				fds, _ := unix.ParseUnixRights(&m)
				q.fds = append(q.fds, fds...)
			}
		}
		r := p.answer(&q)
		closeAll(q.fds)
		if r == nil {
			return
		}
		out := make([]byte, headerSize, headerSize+len(r.body))
		le.PutUint16(out, q.op)
		le.PutUint16(out[2:], r.flags|answerFlag)
		le.PutUint32(out[4:], uint32(r.errno))
		le.PutUint32(out[8:], uint32(headerSize+len(r.body)))
		copy(out[12:16], buf[12:16])
		le.PutUint64(out[16:], q.context)
		var rights []byte
		if len(r.fds) > 0 {
			rights = unix.UnixRights(r.fds...)
		}
		_, _, err = p.conn.WriteMsgUnix(append(out, r.body...), rights, nil)
		if !r.keep {
			closeAll(r.fds)
		}
		if err != nil {
			return
		}
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

func refuse(errno unix.Errno) *reply { return &reply{errno: errno} }

// words returns the bytes of 64-bit numbers, one after another.
func words(v ...uint64) (b []byte) {
	for _, x := range v {
		b = le.AppendUint64(b, x)
	}
	return b
}

func inode(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

func (p *peer) answer(q *ask) *reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch q.op {
	case opHello:
		if len(q.body) < 32 {
			return nil
		}
		name := string(q.body[32:])
		for len(name) > 0 && name[len(name)-1] == 0 {
			name = name[:len(name)-1]
		}
		p.hellos = append(p.hellos, hello{le.Uint32(q.body), le.Uint32(q.body[8:]), name, le.Uint64(q.body[16:]), le.Uint64(q.body[24:])})
		return &reply{body: words(uint64(p.major)|uint64(p.minor)<<16, 1)[:12:12]}
	case opOpen:
		return p.open(q)
	case opAdopt:
		if len(q.fds) != 1 || p.contexts[inode(q.fds[0])] == nil {
			return refuse(unix.ENOTTY)
		}
		p.adopted++
		return opened(inode(q.fds[0]), nil)
	case opAddresses:
		p.told = slices.Clone(q.body)
		return &reply{body: append([]byte(p.root), make([]byte, 64-len(p.root))...)}
	case opMmap:
		return p.mmap(q)
	case opAlloc:
		fd := memory(int64(le.Uint64(q.body[8:])))
		p.memories[le.Uint64(q.body)] = fd
		return &reply{body: words(0, 0, 0, 0), fds: []int{fd}, keep: true}
	case opFree:
		fd, ok := p.memories[le.Uint64(q.body)]
		if !ok {
			return refuse(unix.EINVAL)
		}
		delete(p.memories, le.Uint64(q.body))
		closeAll([]int{fd})
		return &reply{}
	case opIoctl:
		c := p.contexts[q.context]
		if c == nil {
			return refuse(unix.ENODEV)
		}
		return p.ioctl(c, q)
	}
	return refuse(unix.EPROTO)
}

func opened(ino uint64, fds []int) *reply {
	return &reply{body: words(ino, deviceMajor|deviceMinor<<32), fds: fds}
}

func (p *peer) open(q *ask) *reply {
	p.opens++
	if le.Uint32(q.body) != 0 {
		return refuse(unix.ENXIO)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return refuse(unix.EMFILE)
	}
	ino := inode(pair[1])
	p.contexts[ino] = &deviceContext{memory: -1}
	p.ended.Go(func() { // waits until the last copy of the other end is closed
		var b [1]byte
		for {
			if _, err := unix.Read(pair[0], b[:]); err != unix.EINTR {
				break
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		c := p.contexts[ino]
		if c.memory >= 0 {
			closeAll([]int{c.memory})
		}
		if c.shared != nil {
			c.shared[gone] = 1
			_ = unix.Munmap(c.shared)
		}
		delete(p.contexts, ino)
		closeAll(pair[:1])
	})
	return opened(ino, pair[1:])
}

func memory(size int64) int {
	fd, err := unix.MemfdCreate("fake", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil || unix.Ftruncate(fd, size) != nil {
		return -1
	}
	return fd
}

// renew gives the context new memory. peek reads the memory from base on. Programs find this
// part only if they use the offsets in the answers.
func (c *deviceContext) renew(base, size uint64) int {
	if c.memory >= 0 {
		closeAll([]int{c.memory})
	}
	c.memory, c.base = memory(int64(base+size)), int64(base)
	return c.memory
}

// offsetBits are the bits of offsets that mappings in one memory have in common.
const offsetBits = 1<<64 - 1<<20

func (p *peer) mmap(q *ask) *reply {
	c := p.contexts[q.context]
	length, offset := le.Uint64(q.body[8:]), le.Uint64(q.body[16:])
	if c == nil || offset == 0x666000 || length%4096 != 0 {
		return refuse(unix.EINVAL)
	}
	if offset >= registers {
		const whole = 4 * 4096
		if c.shared != nil {
			return &reply{body: words(offset-registers, whole, 0, 0)}
		}
		fd := c.renew(0, whole)
		c.shared, _ = unix.Mmap(fd, 0, whole, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return &reply{body: words(offset-registers, whole, 0, 0), fds: []int{fd}, keep: true}
	}
	given := uint64(0)
	if len(q.body) == 40 && le.Uint64(q.body[32:]) > length {
		given = length + 2*4096
	}
	fd := c.renew(4096, max(length, given))
	c.base += int64(max(length, given) - length) // the program gets the end
	_, _ = unix.Pwrite(fd, words(offset), c.base)
	return &reply{body: words(4096, 0, given, offsetBits), fds: []int{fd}, keep: true}
}

// Methods of programs/try.h.
const (
	reverse = iota + 1
	pipe
	pipeInside
	inodeOf
	remap
	peek
	endless
	errno
	tooLong
	count
	hangUp
)

// A call is an ioctl as it was received.
type call struct {
	method     uint16
	unreadable uint64
	data       []uint64
	bytes      [][]byte // bytes to which the attribute's data points, if it is longer than 8 bytes
	results    []result
}

type result struct {
	attr, kind uint16
	errno      unix.Errno
	addr       uint64
}

func parse(body []byte) (c call, ok bool) {
	if len(body) < 16+ioctlHeader {
		return c, false
	}
	c.unreadable = le.Uint64(body)
	results, length := int(le.Uint32(body[8:])), int(le.Uint32(body[12:]))
	h := body[16:]
	c.method = le.Uint16(h[4:])
	n := int(le.Uint16(h[6:]))
	rest := h[ioctlHeader+n*attrSize:]
	if length != ioctlHeader+n*attrSize {
		return c, false
	}
	for i := range n {
		a := h[ioctlHeader+i*attrSize:]
		size := int(le.Uint16(a[2:]))
		c.data = append(c.data, le.Uint64(a[8:]))
		if size <= 8 {
			size = 0
		}
		c.bytes = append(c.bytes, rest[:size])
		rest = rest[(size+7)&^7:]
	}
	for range results {
		c.results = append(c.results, result{le.Uint16(rest), le.Uint16(rest[2:]), unix.Errno(le.Uint32(rest[4:])), le.Uint64(rest[8:])})
		rest = rest[resultSize:]
	}
	return c, len(rest) == 0
}

// out is one nv_out.
func out(attr, kind int, value uint64, bytes []byte) []byte {
	b := words(uint64(attr)|uint64(kind)<<16|uint64(len(bytes))<<32, value)
	return append(append(b, bytes...), make([]byte, -len(bytes)&7)...)
}

func outs(o ...[]byte) *reply {
	return &reply{body: slices.Concat(append([][]byte{words(uint64(len(o)))}, o...)...)}
}

// need is an answer with one need.
func need(attr, kind int, addr, length, offset uint64) *reply {
	return &reply{flags: againFlag, body: words(1, uint64(attr)|uint64(kind)<<16, addr, length, offset)}
}

func (p *peer) ioctl(c *deviceContext, q *ask) *reply {
	k, ok := parse(q.body)
	if !ok {
		return nil
	}
	switch k.method {
	case reverse:
		if k.unreadable&1 != 0 {
			return refuse(unix.EFAULT)
		}
		c.calls++
		b := slices.Clone(k.bytes[0])
		slices.Reverse(b)
		return outs(out(1, outBytes, 0, b), out(2, outValue, c.calls, nil))
	case pipe, pipeInside:
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return refuse(unix.EMFILE)
		}
		_, _ = unix.Write(fds[1], []byte("pipe"))
		closeAll(fds[1:])
		r := outs(out(0, outFD, 0, nil))
		if k.method == pipeInside {
			r = outs(out(0, outBytes, 0, make([]byte, 16)), out(0, outFDInside, 4, nil))
		}
		r.fds = fds[:1]
		return r
	case inodeOf:
		if len(k.results) == 0 {
			return need(0, needFD, 0, 0, 0)
		}
		if e := k.results[0].errno; e != 0 {
			return outs(out(1, outValue, uint64(e)<<32, nil))
		}
		return outs(out(1, outValue, inode(q.fds[0]), nil))
	case remap:
		addr, length := k.data[0], k.data[1]
		if len(k.results) == 0 {
			r := need(0, needRemap, addr, length, 8192)
			r.fds, r.keep = []int{c.renew(8192, length)}, true
			return r
		}
		if r := k.results[0]; len(k.results) != 1 || r.kind != needRemap || r.addr != addr {
			return refuse(unix.EPROTO)
		}
		return outs(out(2, outValue, uint64(k.results[0].errno), nil))
	case peek:
		var b [8]byte
		if _, err := unix.Pread(c.memory, b[:], c.base+int64(k.data[0])); err != nil {
			return refuse(unix.EFAULT)
		}
		return outs(out(1, outValue, le.Uint64(b[:]), nil))
	case endless:
		return &reply{flags: againFlag, body: words(0)}
	case errno:
		return refuse(unix.Errno(k.data[0]))
	case tooLong:
		return outs(out(0, outBytes, 0, make([]byte, len(k.bytes[0])+1)))
	case count:
		return outs(out(0, outValue, p.adopted, nil), out(1, outValue, uint64(len(p.contexts)), nil),
			out(2, outValue, uint64(len(p.memories)), nil))
	case hangUp:
		return nil
	}
	return refuse(unix.EPROTONOSUPPORT)
}
