package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A tap is memory of a client whose pages are missing in the engine's mapping until the
// test provides them. A thread that touches a missing page waits in the kernel
// (userfaultfd), as it would for a page on a slow disk, or for a page in a hole that is
// being punched.
type tap struct {
	testing.TB
	fd   int
	mem  *shm.Region // the engine's mapping
	args *shm.Region // arguments of ioctls, in memory that does not move
}

const (
	uffdAPI       = 0xc018aa3f // _IOWR(0xaa, 0x3f, 24 bytes)
	uffdRegister  = 0xc020aa00 // _IOWR(0xaa, 0, 32 bytes)
	uffdLetGo     = 0x8010aa01 // _IOR(0xaa, 1, 16 bytes)
	uffdMissing   = 1
	uffdPageFault = 0x12
)

func newTap(t testing.TB, size int) *tap {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		t.Skipf("userfaultfd: %v; faults that are kept waiting need root, or vm.unprivileged_userfaultfd", errno)
	}
	p := &tap{TB: t, fd: int(fd)}
	// A garbage collection would wait for the thread that waits for a page, and the test
	// would wait for the collection.
	percent := debug.SetGCPercent(-1)
	runtime.GC()
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	var err error
	p.args, err = shm.CreateSealed("arguments", shm.PageSize)
	require.NoError(t, err)
	p.mem, err = shm.CreateSealed("tap", size)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.mem.Close()
		_ = p.args.Close()
	})
	p.ioctl(uffdAPI, 0xaa, 0, 0)
	p.ioctl(uffdRegister, p.mem.Addr(), uint64(size), uffdMissing, 0)
	return p
}

func (p *tap) ioctl(request uintptr, words ...uint64) {
	p.Helper()
	for i, w := range words {
		binary.NativeEndian.PutUint64(p.args.Bytes()[8*i:], w)
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), request, uintptr(p.args.Addr()))
	require.Zero(p, errno)
}

// awaits returns when a thread waits for page n. A signal to the thread interrupts its
// wait, so a page can be reported more than once.
func (p *tap) awaits(n int) (page uint64) {
	p.Helper()
	page = p.mem.Addr() + uint64(n)*shm.PageSize
	var msg [32]byte
	await.Until(p, "somebody touches the memory", func() bool {
		for {
			if n, _ := unix.Read(p.fd, msg[:]); n != len(msg) {
				return false
			}
			require.Equal(p, byte(uffdPageFault), msg[0])
			if binary.NativeEndian.Uint64(msg[16:])&^(shm.PageSize-1) == page {
				return true
			}
		}
	})
	return page
}

// free provides all pages. It must be called before an engine is stopped.
func (p *tap) free() { _ = unix.Close(p.fd) }

// open lets go of a page: from then on a fault of it is an ordinary fault.
func (p *tap) open(page uint64) { p.ioctl(uffdLetGo, page, shm.PageSize) }

// tapped gives h the tap's memory as a region that seems to come from another process, and
// returns its key.
func (h *host) tapped(p *tap, base uint64) *key {
	h.Helper()
	id := h.addRegion(base, p.mem)
	// The tap unmaps the memory, so owned is false again when the engine closes.
	h.e.Do(func() { h.c.Regions[id].Owned = true })
	h.Cleanup(func() {
		h.e.Do(func() { h.c.Regions[id].Owned = false })
	})
	return &key{h: h, addr: base, key: h.reg(h.pd, base, p.mem.Size(), control.AccessAll&^control.AccessZeroBased)}
}

// told returns a configuration whose log can be read while the engine runs.
func told() (Config, *sharedLog) {
	b := new(sharedLog)
	return Config{Log: slog.New(slog.NewTextHandler(b, nil))}, b
}

type sharedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sharedLog) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *sharedLog) line(part string) string {
	for l := range strings.Lines(s.String()) {
		if strings.Contains(l, part) {
			return l
		}
	}
	return ""
}

// Memory of a client that stops the engine's thread is always reported. While the thread is
// stopped, the watchdog names the client. Afterwards the delay is counted, and explained to
// the client that owns the memory and to no other client.
func TestMemoryThatHoldsUpTheThread(t *testing.T) {
	cfg, said := told()
	r := newRig(t, cfg)
	p, q := pair(r.host("p"), r.host("q"))
	s, _ := pair(p.h, p.h)
	far := newTap(t, 16*shm.PageSize)
	dst := q.h.tapped(far, 0x1_0000_0000)
	src := p.h.full(64, 1)
	theirs, ours := q.h.events(), p.h.events()
	r.start()
	t.Cleanup(far.free)
	s.post(ctrl(wqe.OpNop)) // after this, all other memory has been touched
	s.scq.await()

	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 64))
	page := far.awaits(0)
	var at []object.Stuck
	await.Until(t, "the watchdog", func() bool {
		at = r.e.Stuck()
		return len(at) > 0 && !at[0].NoCore // on a loaded machine the thread may wait for a core first
	})
	require.Len(t, at, 1)
	require.Equal(t, p.num, at[0].Queue)
	require.Equal(t, p.h.c.Client.Name, at[0].Client)
	require.Equal(t, q.num, at[0].PeerQueue)
	require.Equal(t, q.h.c.Client.Name, at[0].Peer)
	require.GreaterOrEqual(t, at[0].For, report.StuckTime)
	require.NotEmpty(t, at[0].Thread)
	await.Until(t, "the log", func() bool { return said.line("is stuck at memory of a client") != "" })
	require.Contains(t, said.line("is stuck at memory of a client"), "peer=q")
	far.open(page)
	require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)

	await.Until(t, "nobody is stuck", func() bool { return len(r.e.Stuck()) == 0 })
	r.until("the log", func() bool { return said.line("goes on") != "" })
	require.Equal(t, uint64(1), r.e.Stats().Stalls)
	ev := theirs()
	require.NotNil(t, ev, said.String())
	require.Equal(t, codes.MemorySlow.String(), strings.TrimRight(string(ev.Code[:]), "\x00"))
	require.Equal(t, q.num, ev.Number)
	require.Regexp(t, `^memory of region 0x[0-9a-f]+ held up the engine's thread for [0-9.]+m?s: page faults [1-9]`, ev.Text)
	require.Nil(t, ours(), "its memory is the engine's own program's")
	require.Contains(t, said.line("code=memory-slow"), "client=q")
}

// A record that stops the thread is found too, although polls of records are timed
// together. The first time the log speaks of some client; the second time it names the
// right one.
func TestRecordThatHoldsUpTheThread(t *testing.T) {
	cfg, said := told()
	r := newRig(t, cfg)
	a, b := r.host("a"), r.host("b")
	good, _ := pair(a, a)
	c := b.cq(control.CQ{LogSize: 4})
	pages := newTap(t, 16*shm.PageSize)
	b.tapped(pages, 0x1_0000_0000)
	r.start()
	t.Cleanup(pages.free)
	bad := func(record uint64) *end {
		p := &end{h: b, scq: c, rcq: c}
		m := control.QP{PDN: b.pd, SendCQN: c.num, RecvCQN: c.num, LogSQ: 4, NoReceive: 1, DBRec: 0x1_0000_0000 + record*shm.PageSize}
		p.sq, m.SQ = b.take(64 << m.LogSQ)
		var ans control.QPN
		b.call(control.OpCreateQP, &m, &ans)
		p.num = ans.QPN
		b.e.Do(func() { p.q = b.e.QPs[p.num] })
		p.up(good)
		return p
	}
	hold := func(n int) {
		page := pages.awaits(n)
		first := time.Duration(0)
		await.Until(t, "two checks of the watchdog that find the thread waiting", func() bool {
			at := r.e.Stuck()
			if len(at) == 0 || at[0].NoCore {
				return false
			}
			if first == 0 {
				first = at[0].For
			}
			return at[0].For > first
		})
		pages.open(page)
		// Or the next hold would see this one.
		await.Until(t, "nobody is stuck", func() bool { return len(r.e.Stuck()) == 0 })
	}
	const unknown, named = "doorbell records or arm words of some client", "code=memory-slow"
	done := make(chan *end)
	var p *end
	for n := 0; said.line(named) == ""; n++ {
		// On a busy machine, timedTime may be over before the next hold.
		require.Less(t, n, 16, said)
		go func() { done <- bad(uint64(n)) }() // the reply may come only after the first poll of the record
		hold(n)
		p = await.Receive(t, "a queue pair", done)
		r.until("a line in the log", func() bool {
			return strings.Count(said.String(), unknown)+strings.Count(said.String(), named) > n
		})
		require.False(t, n == 0 && said.line(named) != "", "nobody can know the client yet: %s", said)
	}
	line := said.line("code=memory-slow")
	require.Contains(t, line, "client=b")
	require.Contains(t, line, fmt.Sprintf("queue=%#06x", p.num))
}

// A thread that waits for a core, however long, causes no explanation.
func TestGoodWorkIsNotExplained(t *testing.T) {
	roomy(t)
	cfg, said := told()
	r := newRig(t, cfg)
	p, q := pair(r.host("p"), r.host("q"))
	mem, err := shm.CreateSealed("good", 1<<20)
	require.NoError(t, err)
	t.Cleanup(func() { _ = mem.Close() })
	clear(mem.Bytes()) // all pages are there
	dst := q.h.tapped(&tap{TB: t, mem: mem}, 0x1_0000_0000)
	src := p.h.full(1<<20, 1)
	write := func() {
		p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1<<20))
		require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)
	}
	r.start()
	write() // now all pages are in the engine's own mapping, too: no page fault below can have held it up
	var over atomic.Bool
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !over.Load() {
				_ = make([]byte, 1<<16) // makes garbage, and keeps all cores busy
			}
		})
	}
	for range rounds(10, 40) {
		write()
	}
	over.Store(true)
	all.Wait()
	require.Zero(t, r.e.Stats().Stalls, said)
	require.NotContains(t, said.String(), "held up")
}

// Records in the memory of the engine's own program are not foreign.
func TestLooksAtForeignMemory(t *testing.T) {
	r, p, _ := duo(t, Config{})
	require.False(t, r.e.PollsForeignMemory())
	mem := p.h.c.Regions[p.h.region]
	mem.Owned = true // as if it came from another process
	require.True(t, r.e.PollsForeignMemory())
	mem.Owned = false
}

// To name the memory that a slow visit touched, the WQEs are read again. Their poster may
// be writing the next WQEs there at that time. The race detector must not report this race
// to the program of an embedded engine. (Nothing orders the two goroutines below.)
func TestPostersMayWriteWhatIsReadAgain(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(8, 1), q.h.full(8, 2)
	p.post(silent(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	r.settle()
	var posting sync.WaitGroup
	posting.Go(func() { p.sq[8]++ })
	var seen []*object.Mkey
	r.e.Do(func() {
		r.e.First = 0
		r.e.EachKey(p.q, func(k *object.Mkey) { seen = append(seen, k) })
	})
	posting.Wait()
	require.Len(t, seen, 2, "of the source and of the destination")
}

// The measurements of a batch of steps allocate nothing.
func TestMeasuringAllocatesNothing(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(8, 1), q.h.full(8, 2)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.e.Measure()
	defer r.e.Unmeasure()
	for range 16 {
		p.write(silent(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 8))
	}
	n := uint32(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n++
		p.record(4, n)
		r.e.Published = 0
		r.e.Usage.Expire() // the kernel is asked each time
		r.e.Steps(true)
	}))
	require.Equal(t, uint64(n), p.q.SQ.Done)
}
