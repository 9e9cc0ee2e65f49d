package engine

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// While keysAway is true, all keys that hosts register are for unmapped memory of this process.
var keysAway bool

// share lets the host register memory of this process that is in no region.
func (h *host) share() {
	h.Helper()
	require.NoError(h, h.c.ShareProcess(os.Getpid(), ownGuard()))
}

// ownGuard makes the guard of this process.
var ownGuard = sync.OnceValue(func() nic.Guard {
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	return guardAt(mem)
})

// guardAt makes a guard of this process from the bytes of mem.
func guardAt(mem []byte) nic.Guard {
	g := nic.Guard{Addr: procmem.VecOf(mem).Addr, Cookie: rand.Uint64()}
	binary.NativeEndian.PutUint64(mem, g.Cookie)
	return g
}

// private does what host.take does, but its memory is in no region.
func (h *host) private(n int) (mem []byte, addr uint64) {
	mem = make([]byte, n)
	return mem, procmem.VecOf(mem).Addr
}

// The tests of memory in a region also pass with memory of a process.
func TestProcessMemory(t *testing.T) {
	keysAway = true
	defer func() { keysAway = false }()
	for name, test := range map[string]func(*testing.T){
		"Atomics": TestAtomics, "AtomicFaults": TestAtomicFaults, "AtomicThroughAList": TestAtomicThroughAList,
		"Operations": TestOperations, "Pieces": TestPieces, "Inline": TestInline, "InlineBetweenPointers": TestInlineBetweenPointers,
		"ZeroLength": TestZeroLength, "WriteImmIgnoresReceiveList": TestWriteImmIgnoresReceiveList, "ByteCountZero": TestByteCountZero,
		"Loopback": TestLoopback, "IOVA": TestIOVA, "LastByte": TestLastByte, "Dump": TestDump, "MMO": TestMMO,
		"Faults": TestFaults, "FaultsAreExplained": TestFaultsAreExplained,
		"SlicedSend": TestSlicedSend, "InlineDataOfASlicedTransfer": TestInlineDataOfASlicedTransfer,
		"DeregistrationInTheMiddle": TestDeregistrationInTheMiddle, "CloseInTheMiddle": TestCloseInTheMiddle,
		"DeathAtAnyPoint": TestDeathAtAnyPoint, "StopDrains": TestStopDrains, "StopFlushes": TestStopFlushes,
		"List": TestList, "Interleaved": TestInterleaved, "ListFaults": TestListFaults, "ListInvalidated": TestListInvalidated,
		"ListGoesInTheMiddle": TestListGoesInTheMiddle, "UMRChangesAttributesOnly": TestUMRChangesAttributesOnly,
		"Window": TestWindow, "WindowRights": TestWindowRights, "WindowOfAnotherQP": TestWindowOfAnotherQP,
		"ZeroBasedWindow": TestZeroBasedWindow, "BindAfterInvalidate": TestBindAfterInvalidate, "BindFailures": TestBindFailures,
		"SendInval": TestSendInval, "KeyUnderWindows": TestKeyUnderWindows, "WindowClosedInTheMiddle": TestWindowClosedInTheMiddle,
		"SRQFollowsLinks": TestSRQFollowsLinks, "SRQWriteImm": TestSRQWriteImm, "SRQEntryComesBack": TestSRQEntryComesBack,
		"SRQFault": TestSRQFault, "SRQDatagram": TestSRQDatagram, "SRQHostile": TestSRQHostile,
		"UnreliableConnection": TestUnreliableConnection, "Datagram": TestDatagram, "DatagramsToMany": TestDatagramsToMany,
		"LostMessages": TestLostMessages, "SQE": TestSQE, "LongestReceiveList": TestLongestReceiveList,
		"StepDoesNotAllocate": TestStepDoesNotAllocate, "UMRDoesNotAllocate": TestUMRDoesNotAllocate,
	} {
		t.Run(name, test)
	}
}

// A holedKey is registered memory of three pages, of which the second is gone.
type holedKey struct {
	*key
	page int
}

func (h *host) holed() holedKey {
	h.Helper()
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(h, err)
	h.Cleanup(func() { _ = unix.Munmap(mem) })
	copy(mem, pattern(len(mem), 5))
	k := &key{h: h, mem: mem, addr: procmem.VecOf(mem).Addr}
	k.key = h.reg(h.pd, k.addr, len(mem), control.AccessAll&^control.AccessZeroBased)
	require.NoError(h, unix.Mprotect(mem[page:2*page], unix.PROT_NONE))
	return holedKey{k, page}
}

// A hole in memory fails the work request that reaches it, on the side where the hole is.
// Bytes before the hole have been moved, as by hardware; bytes after it have not.
func TestHoleInProcessMemory(t *testing.T) {
	fa := wqe.Atomic{SwapAdd: 1}
	for _, row := range []struct {
		name      string
		op        wqe.Opcode
		far       bool // the hole is in the responder's memory
		lay       func(s *scene, hole holedKey, off, n int) []any
		requester cqe.Syndrome
		receive   cqe.Syndrome
	}{
		{"WRITE from it", wqe.OpRDMAWrite, false, func(s *scene, h holedKey, off, n int) []any {
			return []any{s.far.raddr(0), h.data(off, n)}
		}, cqe.LocalProtection, 0},
		{"WRITE to it", wqe.OpRDMAWrite, true, func(s *scene, h holedKey, off, n int) []any {
			return []any{h.raddr(off), s.local.data(0, n)}
		}, cqe.RemoteAccess, 0},
		{"WRITE_IMM to it", wqe.OpRDMAWriteImm, true, func(s *scene, h holedKey, off, n int) []any {
			s.q.recv()
			return []any{h.raddr(off), s.local.data(0, n)}
		}, cqe.RemoteAccess, cqe.Flush},
		{"inline WRITE to it", wqe.OpRDMAWrite, true, func(_ *scene, h holedKey, off, n int) []any {
			return []any{h.raddr(off), pattern(n, 9)}
		}, cqe.RemoteAccess, 0},
		{"READ from it", wqe.OpRDMARead, true, func(s *scene, h holedKey, off, n int) []any {
			return []any{h.raddr(off), s.local.data(0, n)}
		}, cqe.RemoteAccess, 0},
		{"READ to it", wqe.OpRDMARead, false, func(s *scene, h holedKey, off, n int) []any {
			return []any{s.far.raddr(0), h.data(off, n)}
		}, cqe.LocalProtection, 0},
		{"SEND from it", wqe.OpSend, false, func(s *scene, h holedKey, off, n int) []any {
			s.q.recv(s.far.data(0, 256))
			return []any{h.data(off, n)}
		}, cqe.LocalProtection, 0},
		{"SEND to it", wqe.OpSend, true, func(s *scene, h holedKey, off, n int) []any {
			s.q.recv(h.data(off, n/2), h.data(off+n/2, n-n/2))
			return []any{s.local.data(0, n)}
		}, cqe.RemoteOperation, cqe.LocalProtection},
		{"atomic on it", wqe.OpAtomicFA, true, func(s *scene, h holedKey, off, n int) []any {
			return []any{h.raddr(h.page), fa, s.local.data(0, 8)}
		}, cqe.RemoteAccess, 0},
		{"atomic with its result there", wqe.OpAtomicFA, false, func(s *scene, h holedKey, off, n int) []any {
			return []any{s.far.raddr(0), fa, h.data(h.page, 8)}
		}, cqe.LocalProtection, 0},
	} {
		for _, others := range []string{"mapped", "away"} {
			for _, slice := range []int{64, 1 << 16} {
				t.Run(fmt.Sprintf("%s, the others' %s, slices of %d", row.name, others, slice), func(t *testing.T) {
					defer func() { keysAway = false }()
					keysAway = others == "away"
					s := newScene(t, Config{Slice: slice})
					owner := s.p.h
					if row.far {
						owner = s.q.h
					}
					owner.share()
					hole := owner.holed()
					was := append([]byte(nil), hole.mem[:hole.page]...)
					before := s.p.post(ctrl(wqe.OpNop))
					bad := s.p.post(silent(row.op), row.lay(s, hole, hole.page-100, 200)...)
					s.settle()
					list := s.p.scq.all()
					require.Len(t, list, 2)
					require.Equal(t, before, list[0].Counter)
					s.failed(list[1], row.requester, bad)
					require.Equal(t, control.StateERR, s.p.state())
					if row.receive != 0 {
						s.failed(s.q.rcq.one(), row.receive, 0)
					}
					if row.far {
						require.Equal(t, control.StateERR, s.q.state())
					}
					s.same(was[:hole.page-100], hole.mem[:hole.page-100], "what is not meant")
					if row.far && row.op == wqe.OpRDMAWrite && row.name != "inline WRITE to it" {
						s.same(s.local.mem[:100], hole.mem[hole.page-100:hole.page], "what lies before the hole")
					}
					s.idle1.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(100), s.local.data(0, 100))
					s.settle()
					require.Equal(t, unharmed, s.idle1.scq.one().Syndrome)
				})
			}
		}
	}
}

// On an unreliable transport, a hole in the receiver's memory has no effect but the loss of the
// message.
func TestHoleBehindAnUnreliableQueue(t *testing.T) {
	for transport, payload := range map[uint8]int{control.QPTypeUC: 100, control.QPTypeUD: 60} {
		r := newRig(t, Config{})
		a, b := r.host("a"), r.host("b")
		b.share()
		p, q := pairOf(transport, a, b)
		src, hole, good := a.full(256, 1), b.holed(), b.full(256, 2)
		q.recv(hole.data(hole.page-40, 100))
		send := func() {
			seg := []any{src.data(0, payload)}
			if transport == control.QPTypeUD {
				seg = []any{q.to(), src.data(0, payload)}
			}
			p.post(ctrl(wqe.OpSend), seg...)
			r.settle()
		}
		send()
		p.good()
		q.rcq.none()
		require.Equal(t, control.StateRTS, q.state())
		at := 0 // the receive is still posted; given memory without a hole, it takes the next message
		require.True(t, wqe.PutRecv(q.rq[at:at+q.stride], []wqe.Data{good.data(0, 256)}))
		send()
		p.good()
		require.Equal(t, unharmed, q.rcq.one().Syndrome)
		if transport == control.QPTypeUC {
			hit := append([]byte(nil), hole.mem[:hole.page-40]...)
			p.post(ctrl(wqe.OpRDMAWrite), hole.raddr(hole.page-40), src.data(0, 100))
			r.settle()
			p.good()
			r.same(hit, hole.mem[:hole.page-40], "what is not meant")
		}
	}
}

// To the owner of the memory all is explained. The writer sees only that there is a fault.
func TestHoleIsExplainedToItsOwner(t *testing.T) {
	c, said := logged()
	s := newScene(t, c)
	s.q.h.share()
	hole := s.q.h.holed()
	s.p.post(ctrl(wqe.OpRDMAWrite), hole.raddr(hole.page), s.local.data(0, 8))
	s.settle()
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	require.Len(t, lines, 2)
	where := fmt.Sprintf("%#x", hole.addr+uint64(hole.page))
	for i, row := range []struct{ client, speaks string }{{"client=q", where}, {"client=p", "its owner is told why"}} {
		require.Contains(t, lines[i], "code=process-memory")
		require.Contains(t, lines[i], row.client)
		require.Contains(t, lines[i], row.speaks)
	}
	require.NotContains(t, lines[1], where)
}

// Mapped memory that loses its pages is found even if the other side is unmapped.
func TestMappedHoleBesideProcessMemory(t *testing.T) {
	for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead} {
		c, said := logged()
		s := newScene(t, c)
		s.q.h.share()
		far := s.q.h.keyOf(s.q.h.private, 256, control.AccessAll&^control.AccessZeroBased)
		_, base, shrink := s.p.h.trusted(1 << 16)
		k := s.p.h.reg(s.p.h.pd, base, 1<<16, control.AccessLocalWrite)
		shrink(0)
		index := s.p.post(ctrl(op), far.raddr(0), wqe.Data{ByteCount: 64, LKey: k, Addr: base})
		s.guardedSteps()
		s.failed(s.p.scq.one(), cqe.LocalProtection, index)
		require.Contains(t, said.String(), "code=memory-fault")
		require.NotContains(t, said.String(), "code=process-memory")
	}
}

// guardedSteps settles as Run does: it recovers from faults of memory.
func (r *rig) guardedSteps() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(r, r.d.Run(ctx, nil)) // executes what has been announced
	r.e.Journal.Flush(time.Minute)
}

const childVariable = "NICLESS_TEST_CHILD_MEMORY"

// childMemory is the address of each child's memory. The Go runtime maps nothing there.
const childMemory = 0x5000_0000_0000

// TestChildMemory is not a test. It is the body of a process with memory, which runs until
// its input ends; an environment variable starts it. Each line of input asks for the first
// bytes of the memory, or makes the process execute another program, which has other memory
// at the same address.
func TestChildMemory(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(childVariable))
	if err != nil {
		t.Skip("the other process of TestMemoryOfAnotherProcess")
	}
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, childMemory, uintptr(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
	require.Zero(t, errno)
	mem := []procmem.Vec{{Addr: childMemory, Len: uint64(n)}}
	content := pattern(n, 42)
	_, errno = procmem.Write(os.Getpid(), []procmem.Vec{procmem.VecOf(content)}, mem)
	runtime.KeepAlive(content)
	require.Zero(t, errno)
	guard := ownGuard()
	fmt.Println("guard", guard.Addr, guard.Cookie)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "exec" {
			exe, err := os.Executable()
			require.NoError(t, err)
			require.NoError(t, unix.Exec(exe, os.Args, os.Environ()))
		}
		b := make([]byte, 8)
		_, errno := procmem.Read(os.Getpid(), []procmem.Vec{procmem.VecOf(b)}, mem)
		require.Zero(t, errno)
		fmt.Printf("bytes %x\n", b)
	}
}

// A child is a process that runs TestChildMemory.
type child struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	at   nic.Guard
	ends sync.Once
}

func startChild(t testing.TB, n int) *child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := &child{t: t, cmd: exec.Command(exe, "-test.run=^TestChildMemory$")}
	c.cmd.Env = append(os.Environ(), childVariable+"="+strconv.Itoa(n))
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	c.out = bufio.NewScanner(out)
	c.ready()
	t.Cleanup(c.stop)
	return c
}

func (c *child) answer(head string) string {
	for c.out.Scan() {
		if rest, ok := strings.CutPrefix(c.out.Text(), head); ok {
			return rest
		}
	}
	c.t.Fatalf("the child said no %q", head)
	return ""
}

func (c *child) ready() {
	_, err := fmt.Sscan(c.answer("guard "), &c.at.Addr, &c.at.Cookie)
	require.NoError(c.t, err)
}

// ask returns the first bytes of the child's memory.
func (c *child) ask() string {
	_, err := fmt.Fprintln(c.in)
	require.NoError(c.t, err)
	return c.answer("bytes ")
}

// execute makes the child execute another program.
func (c *child) execute() {
	_, err := fmt.Fprintln(c.in, "exec")
	require.NoError(c.t, err)
	c.ready()
}

func (c *child) stop() {
	c.ends.Do(func() {
		_ = c.in.Close()
		_ = c.cmd.Wait()
	})
}

func TestMemoryOfAnotherProcess(t *testing.T) {
	roomy(t)
	const size = 1 << 20
	c := startChild(t, size)
	conf, said := logged()
	r, p, q := duo(t, conf)
	require.NoError(t, q.h.c.ShareProcess(c.cmd.Process.Pid, c.at))
	local := p.h.full(size, 3)
	far := q.h.reg(q.h.pd, childMemory, size, control.AccessAll&^control.AccessZeroBased)

	p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{Addr: childMemory, RKey: far}, local.data(0, size))
	r.settle()
	p.good()
	r.same(pattern(size, 42), local.mem, "read from the process")
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: childMemory, RKey: far}, []byte("written!"))
	r.settle()
	p.good()
	require.Equal(t, fmt.Sprintf("%x", "written!"), c.ask())

	// The process ends and its memory is gone. The device does not mistake another process
	// with this pid for it.
	program := q.h.c.Process
	c.stop()
	await.Until(t, "the device notices it", func() bool { return program.Gone.Load() != process.Present })
	index := p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: childMemory, RKey: far}, []byte("too late"))
	r.settle()
	r.failed(p.scq.one(), cqe.RemoteAccess, index)
	require.Contains(t, said.String(), "ESRCH")
}

func TestShareProcessRefusals(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	mem, addr := h.private(64)
	h.refused(control.CodeInvalid, "not inside one region", control.OpRegMR, &control.MR{PDN: h.pd, Addr: addr, Length: 64}, nil)
	err := h.c.ShareProcess(1<<30, ownGuard())
	require.ErrorContains(t, err, "no process has that pid")
	taken := r.e.Ledger.Taken()[quota.Descriptors]
	h.share()
	h.share() // the same process again
	require.Equal(t, taken+1, r.e.Ledger.Taken()[quota.Descriptors])
	require.ErrorContains(t, h.c.ShareProcess(os.Getppid(), ownGuard()), "this client's memory is that of process "+strconv.Itoa(os.Getpid()))
	h.refused(control.CodeMemory, "EFAULT", control.OpRegMR, &control.MR{PDN: h.pd, Addr: 4096, Length: 64}, nil)
	h.refused(control.CodeMemory, "EFAULT", control.OpRegMR, &control.MR{PDN: h.pd, Addr: addr, Length: 1 << 60}, nil)
	h.refused(control.CodeInvalid, "CQ buffer", control.OpCreateCQ, &control.CQ{LogCQE: 6, Buf: addr &^ 63, DBRec: addr &^ 63}, nil)
	k := h.reg(h.pd, addr, 64, 0)
	h.dereg(k)
	require.NoError(t, h.c.Close())
	require.Equal(t, taken-object.ClientCharge[quota.Descriptors], r.e.Ledger.Taken()[quota.Descriptors])
	require.ErrorIs(t, h.c.ShareProcess(os.Getpid(), ownGuard()), object.ErrClosed)
	runtime.KeepAlive(mem)
}

// A process may have mapped other memory over its region; RequestMemory.InProcess says so.
func TestProcessMemoryWhereARegionIs(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	h.share()
	reg := func(away bool) (*object.Mkey, error) {
		m := &control.MR{PDN: h.pd, Addr: h.base, Length: 64}
		payload := control.Append(nil, control.OpRegMR, 0, 0, m)[control.HeaderSize:]
		a, _, err := h.c.Request(control.OpRegMR, payload, object.RequestMemory{InProcess: away})
		if err != nil {
			return nil, err
		}
		return h.c.MRs[a.(*control.Key).Key>>8], nil
	}
	k, err := reg(false)
	require.NoError(t, err)
	require.Nil(t, k.Process)
	_, err = reg(true)
	require.ErrorContains(t, err, "EFAULT", "this process has nothing there")
}

// A pid does not say whose process it was when the client came. A program that another user
// has executed since then may run as the device's user.
func TestShareProcessOfAnotherUsersClient(t *testing.T) {
	r := newRig(t, Config{})
	other := uint32(os.Geteuid() + 1)
	c, err := r.d.nic().NewHosted("other", other, nic.Hosted{})
	require.NoError(t, err)
	defer c.Close()
	require.ErrorContains(t, c.ShareProcess(os.Getpid(), ownGuard()), fmt.Sprintf("its client runs as user %d,", other))
}

// Reregistering moves a key between memory of a region and memory of a process.
func TestReregistrationOfProcessMemory(t *testing.T) {
	s := newScene(t, Config{})
	s.q.h.share()
	k := s.q.h.keyOf(s.q.h.private, 256, control.AccessAll&^control.AccessZeroBased)
	var ans control.Key
	rereg := func(m control.ReregMR) {
		m.Key = k.key
		s.q.h.call(control.OpReregMR, &m, &ans)
		k.key = ans.Key
	}
	write := func(to wqe.Raddr) {
		s.p.post(ctrl(wqe.OpRDMAWrite), to, s.local.data(0, 64))
		s.settle()
		s.p.good()
	}
	rereg(control.ReregMR{What: control.ReregAccess, Access: control.AccessLocalWrite | control.AccessRemoteWrite})
	write(k.raddr(0))
	s.same(s.local.mem[:64], k.mem[:64], "with other rights")
	rereg(control.ReregMR{What: control.ReregRange, Addr: s.far.addr, Length: 256, IOVA: 0x1000})
	write(wqe.Raddr{Addr: 0x1000, RKey: k.key})
	s.same(s.local.mem[:64], s.far.mem[:64], "in the region")
	rereg(control.ReregMR{What: control.ReregRange, Addr: k.addr + 64, Length: 64, IOVA: 0x1000})
	write(wqe.Raddr{Addr: 0x1000, RKey: k.key})
	s.same(s.local.mem[:64], k.mem[64:128], "in the process")
}

// Copies by the kernel count in the budget of a visit.
func TestProcessMemoryCostsItsTime(t *testing.T) {
	defer func() { keysAway = false }()
	keysAway = true
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	for range 16 {
		p.write(silent(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	}
	p.ring()
	calls := int(r.e.Settings.Slice / (2 * execution.CallCost))
	require.Equal(t, calls, r.e.Visit(p.q), "from process to process")
	require.GreaterOrEqual(t, r.e.Sched.Spent, r.e.Settings.Slice-8)
}
