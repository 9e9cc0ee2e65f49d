package verbs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const noFile = ^uint64(0) // the descriptor -1

// openXRCDRequest returns a struct ib_uverbs_open_xrcd.
func openXRCDRequest(fd uint64, flags uint32) []byte {
	b := make([]byte, abi.OpenXRCDSize)
	le.PutUint32(b[abi.OpenXRCDFD:], uint32(fd))
	le.PutUint32(b[abi.OpenXRCDOflags:], flags)
	return b
}

// openXRCD returns the errno and the handle.
func (p *program) openXRCD(fd uint64, flags uint32) (unix.Errno, uint32) {
	p.Helper()
	c := p.write(p.ctx, abi.CmdOpenXRCD, openXRCDRequest(fd, flags), abi.OpenXRCDRespSize)
	if c.errno != 0 {
		return c.errno, 0
	}
	return 0, le.Uint32(c.bytes[abi.AttrCoreOut])
}

func (p *program) mustOpenXRCD(fd uint64, flags uint32) uint32 {
	p.Helper()
	errno, h := p.openXRCD(fd, flags)
	require.Zero(p, errno)
	return h
}

func (p *program) closeXRCD(h uint32) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectXRCD, abi.MethodXRCDDestroy, arg{id: abi.AttrDestroyXRCDHandle, data: uint64(h)})
}

// createTargetArgs are the attributes of a queue pair of type XRC_RECV.
func createTargetArgs(xrcd uint32) []arg {
	return []arg{{id: abi.AttrCreateQPHandle}, {id: abi.AttrCreateQPXRCDHandle, data: uint64(xrcd)}, {id: abi.AttrCreateQPUserHandle, in: u64s(0xabcd)},
		{id: abi.AttrCreateQPCap, in: u32s(0, 0, 0, 0, 0)}, number(abi.AttrCreateQPType, abi.QPTXRCTgt), {id: abi.AttrCreateQPRespCap, out: abi.QPCapSize},
		{id: abi.AttrCreateQPRespQPNum, out: 4}, {id: abi.AttrUHWIn, in: make([]byte, abi.MLX5CreateQPSize)}, {id: abi.AttrUHWOut, out: abi.MLX5CreateQPRespSize}}
}

func (p *program) createTarget(xrcd uint32, more ...arg) answer {
	p.Helper()
	return p.ioctl(p.ctx, abi.ObjectQP, abi.MethodQPCreate, append(createTargetArgs(xrcd), more...)...)
}

// openQPRequest returns a struct ib_uverbs_open_qp.
func openQPRequest(xrcd, qpn uint32, element uint64) []byte {
	b := make([]byte, abi.OpenQPSize)
	le.PutUint64(b[abi.OpenQPUserHandle:], element)
	le.PutUint32(b[abi.OpenQPPDHandle:], xrcd)
	le.PutUint32(b[abi.OpenQPQPN:], qpn)
	b[abi.OpenQPQPType] = abi.QPTXRCTgt
	return b
}

// openQP returns the errno and the handle.
func (p *program) openQP(xrcd, qpn uint32, element uint64) (unix.Errno, uint64) {
	p.Helper()
	c := p.write(p.ctx, abi.CmdOpenQP, openQPRequest(xrcd, qpn, element), abi.CreateQPRespSize)
	if c.errno != 0 {
		return c.errno, 0
	}
	require.Equal(p, qpn, le.Uint32(c.bytes[abi.AttrCoreOut][abi.CreateQPRespQPN:]))
	return 0, uint64(le.Uint32(c.bytes[abi.AttrCoreOut][abi.CreateQPRespQPHandle:]))
}

// event returns the element of the next unread event of a program, 0 if there is none.
func (p *program) event() uint64 {
	p.Helper()
	var b [abi.AsyncEventDescSize]byte
	n, _, err := unix.Recvfrom(int(p.files[p.async].Fd()), b[:], unix.MSG_DONTWAIT)
	if err != nil || n != len(b) {
		return 0
	}
	return le.Uint64(b[abi.AsyncEventDescElement:])
}

// twoPrograms returns two programs, each of which has a descriptor of the same file.
func twoPrograms(t *testing.T) (a, b *program, fileA, fileB uint64) {
	s := newServing(t)
	a, b = s.rig(t).program(), s.rig(t).program()
	path := filepath.Join(t.TempDir(), "domain")
	open := func(p *program) uint64 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		return p.give(f)
	}
	return a, b, open(a), open(b)
}

// A file stands for a domain as long as a program has it open. Flags work as in the kernel.
func TestXRCDomainsByFile(t *testing.T) {
	a, b, fileA, fileB := twoPrograms(t)
	all := &a.s.domains
	for _, m := range []struct {
		why   string
		fd    uint64
		flags uint32
		errno unix.Errno
	}{
		{"nobody has opened it", fileA, 0, unix.EAGAIN},
		{"only O_EXCL", fileA, unix.O_EXCL, unix.EAGAIN},
		{"no descriptor", 4711, unix.O_CREAT, unix.EBADF},
		{"a negative descriptor", ^uint64(1), unix.O_CREAT, unix.EBADF},
	} {
		errno, _ := a.openXRCD(m.fd, m.flags)
		require.Equal(t, m.errno, errno, m.why)
	}
	free := a.context().cost
	first := a.mustOpenXRCD(fileA, unix.O_CREAT|unix.O_EXCL)
	errno, _ := b.openXRCD(fileB, unix.O_CREAT|unix.O_EXCL)
	require.Equal(t, unix.EINVAL, errno, "O_EXCL, and it is open")
	second, third := b.mustOpenXRCD(fileB, 0), b.mustOpenXRCD(fileB, unix.O_CREAT)
	domain := func(p *program, h uint32) uint32 { return p.context().objects[h].self.(*xrcd).number }
	require.Equal(t, domain(a, first), domain(b, second))
	require.Equal(t, domain(a, first), domain(b, third))
	private := a.mustOpenXRCD(noFile, 0)
	require.NotEqual(t, domain(a, first), domain(a, private))
	require.Len(t, all.all, 1)
	a.ok(a.closeXRCD(private))
	a.ok(a.closeXRCD(first))
	require.Equal(t, free, a.context().cost)
	require.Equal(t, unix.ENOENT, a.closeXRCD(first).errno)
	b.ok(b.closeXRCD(second))
	require.Len(t, all.all, 1, "b has opened it twice")
	again := a.mustOpenXRCD(fileA, 0)
	require.Equal(t, domain(b, third), domain(a, again))
	b.context().end()
	a.ok(a.closeXRCD(again))
	require.Empty(t, all.all)
	errno, _ = a.openXRCD(fileA, 0)
	require.Equal(t, unix.EAGAIN, errno, "all have closed it")
}

// Handles of a target are independent of each other, in one context and in several. The target
// ends with the last one.
func TestOpenTargets(t *testing.T) {
	a, b, fileA, fileB := twoPrograms(t)
	domainA, domainB := a.mustOpenXRCD(fileA, unix.O_CREAT), b.mustOpenXRCD(fileB, 0)
	free := b.context().cost
	made := a.ok(a.createTarget(domainA))
	mine, qpn := made.value[abi.AttrCreateQPHandle], le.Uint32(made.bytes[abi.AttrCreateQPRespQPNum])
	errno, theirs := b.openQP(domainB, qpn, 1)
	require.Zero(t, errno)
	errno, second := b.openQP(domainB, qpn, 2)
	require.Zero(t, errno, "a second time in one context")
	errno, third := a.openQP(domainA, qpn, 3)
	require.Zero(t, errno, "by the program that has made it")

	// An address that one of them sets is the address of all.
	address := make([]byte, abi.QPDestSize)
	address[0], address[31] = 0xfe, 1
	a.context().objects[uint32(third)].self.(*qp).dest.set(address)
	answer := b.ok(b.write(b.ctx, abi.CmdQueryQP, queryQPRequest(uint32(second)), abi.QueryQPRespSize)).bytes[abi.AttrCoreOut]
	require.Equal(t, address, answer[abi.QueryQPRespDest:][:abi.QPDestSize])

	// Each handle gets each event, with its own element.
	for _, p := range []*program{a, b} {
		p.context().translate(&control.Event{Kind: control.EventEstablished, Number: qpn})
	}
	require.Equal(t, []uint64{0xabcd, 3, 0}, []uint64{a.event(), a.event(), a.event()})
	require.Equal(t, uint64(1), b.event())
	destroyed := b.ok(b.destroyQP(second)) // has an unread event
	require.Zero(t, le.Uint32(destroyed.bytes[abi.AttrDestroyQPResp]))
	require.Zero(t, b.event(), "the unread event was taken back")

	require.Equal(t, unix.EBUSY, b.closeXRCD(domainB).errno)
	a.ok(a.destroyQP(mine))
	a.ok(a.destroyQP(third))
	errno, _ = a.openQP(domainA, qpn, 4)
	require.Zero(t, errno, "b still has it")
	a.context().end()
	b.ok(b.write(b.ctx, abi.CmdQueryQP, queryQPRequest(uint32(theirs)), abi.QueryQPRespSize))
	b.ok(b.destroyQP(theirs))
	require.Empty(t, b.s.domains.targets)
	require.Empty(t, b.context().targets)
	errno, _ = b.openQP(domainB, qpn, 5)
	require.Equal(t, unix.EINVAL, errno, "it has ended")
	require.Equal(t, free, b.context().cost)
	b.ok(b.closeXRCD(domainB))
}

// A domain that cannot be opened or made is refused with the kernel's errno, and costs nothing.
func TestTargetMistakes(t *testing.T) {
	a, b, fileA, _ := twoPrograms(t)
	domain, other := a.mustOpenXRCD(fileA, unix.O_CREAT), a.mustOpenXRCD(noFile, 0)
	qpn := le.Uint32(a.ok(a.createTarget(domain)).bytes[abi.AttrCreateQPRespQPNum])
	cq := a.ok(a.createCQ(15, 0)).value[0]
	rc := le.Uint32(a.ok(a.createQP(abi.QPTRC, cq)).bytes[abi.AttrCreateQPRespQPNum])
	free := a.context().cost
	strange := b.mustOpenXRCD(noFile, 0)
	for _, m := range []struct {
		why       string
		p         *program
		xrcd, qpn uint32
	}{
		{"no domain", a, 4711, qpn}, {"a PD in place of a domain", a, a.pd, qpn}, {"another domain of this context", a, other, qpn},
		{"a domain of another program", b, strange, qpn}, {"a queue pair of type RC", a, domain, rc}, {"no queue pair", a, domain, 0xffffff},
		{"a number of 32 bits", a, domain, qpn | 1<<31},
	} {
		errno, _ := m.p.openQP(m.xrcd, m.qpn, 0)
		require.Equal(t, unix.EINVAL, errno, m.why)
	}
	req := openQPRequest(domain, qpn, 0)
	req[abi.OpenQPQPType] = abi.QPTRC
	require.Equal(t, unix.EINVAL, a.write(a.ctx, abi.CmdOpenQP, req, abi.CreateQPRespSize).errno, "as type RC")
	require.Equal(t, unix.EINVAL, a.createTarget(domain, arg{id: abi.AttrCreateQPPDHandle, data: uint64(a.pd)}).errno, "with a PD")
	require.Equal(t, unix.EINVAL, a.createTarget(domain, arg{id: abi.AttrCreateQPSendCQHandle, data: cq}).errno, "with a CQ")
	require.Equal(t, unix.ENOENT, a.createTarget(4711).errno)
	require.Equal(t, unix.EINVAL, a.createTarget(a.pd).errno, "a PD in place of a domain")
	require.Equal(t, unix.ENOENT, a.ioctl(a.ctx, abi.ObjectQP, abi.MethodQPCreate, slices.Delete(createTargetArgs(domain), 1, 2)...).errno, "without a domain")
	require.Equal(t, free, a.context().cost)
}
