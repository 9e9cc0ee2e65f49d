//go:build linux && (amd64 || arm64)

package torture

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/wqe"
	"golang.org/x/sys/unix"
)

// punch removes pages from memory that the engine uses. A thread that touches a page while
// another thread removes the page waits in the kernel. The removing thread can take arbitrarily
// long if it has the lowest priority and shares its core with a thread that spins. A test whose engine is
// in the same process leaves it the usual priority: the runtime of Go stops all threads of a process at
// times, so one that gets no core would stop the engine, which no other process can. Before memory
// is sealed the engine must not touch it. After it is sealed no pages can be removed.
func (v *hostile) punch() error {
	// so that the goroutines of this process do not wait for each other
	runtime.GOMAXPROCS(max(6, runtime.NumCPU()))
	c, err := v.dial()
	if err != nil {
		return err
	}
	w := &objects{raw: c}
	defer w.destroy()
	if err := c.hello(); err != nil {
		return err
	}
	size := 4 << 20 << v.r.IntN(5)
	mem, id, err := c.region(size, false)
	if err != nil {
		return err
	}
	w.mem = mem
	for i := 0; i < size; i += shm.PageSize { // touch the pages, so that they exist and can be removed
		mem.Bytes()[i] = 1
	}
	if err := v.beforeSeal(w, id); err != nil {
		return err
	}
	if err := c.call(control.OpPlaceRegion, &control.Placement{ID: id, Addr: mem.Addr()},
		&control.Empty{}); err != nil {
		return err
	}
	return v.afterSeal(w)
}

// beforeSeal removes pages while it requests the engine to use the memory. The engine must refuse.
// Then it seals the memory; the seal waits until the removals have ended.
func (v *hostile) beforeSeal(w *objects, id uint32) error {
	p, err := v.startPunching(w.mem, false)
	if err != nil {
		return err
	}
	defer p.stopAll()
	var pd control.PD
	if err := w.call(control.OpAllocPD, &control.Empty{}, &pd); err != nil {
		return err
	}
	for end := time.Now().Add(burst(v)); time.Now().Before(end); v.pause(5 * time.Millisecond) {
		err := w.call(control.OpPlaceRegion, &control.Placement{ID: id, Addr: w.mem.Addr()}, &control.Empty{})
		if err == nil {
			return verdict.New(verdict.Failed, "a refusal", "the engine accepted memory that can still lose pages")
		} else if !refused(err) {
			return err
		}
		key := &control.MR{PDN: pd.PDN, Access: control.AccessLocalWrite, Addr: w.mem.Addr(), Length: 4096,
			IOVA: w.mem.Addr()}
		if err := w.call(control.OpRegMR, key, &control.Key{}); err == nil {
			return verdict.New(verdict.Failed, "a refusal", "the engine registered memory that can still lose pages")
		} else if !refused(err) {
			return err
		}
		v.did(2)
	}
	p.stopSpinning() // while the other thread spins, the removal does not end and the seal waits
	var sealing sync.WaitGroup
	for range 2 {
		sealing.Go(func() { _ = w.mem.Seal() })
	}
	sealing.Wait()
	return nil
}

// afterSeal makes the engine use the memory, and tries every way to remove pages meanwhile.
func (v *hostile) afterSeal(w *objects) error {
	if err := v.createObjects(w); err != nil {
		return err
	}
	base, size := w.mem.Addr(), uint64(w.mem.Size())
	var key control.Key
	const rights = control.AccessLocalWrite | control.AccessRemoteWrite | control.AccessRemoteRead
	if err := w.call(control.OpRegMR,
		&control.MR{PDN: w.pd, Access: rights, Addr: base, Length: size, IOVA: base}, &key); err != nil {
		return err
	}
	for range 1 + v.r.IntN(3) {
		for i := range 2 { // the queue pairs may be in the error state
			if err := v.connectAs(w, i, w.qps[i^1].qpn,
				control.AccessRemoteWrite|control.AccessRemoteRead); err != nil {
				return err
			}
		}
		p, err := v.startPunching(w.mem, true)
		if err != nil {
			return err
		}
		for end := time.Now().Add(burst(v)); time.Now().Before(end) &&
			err == nil; v.pause(2 * time.Millisecond) {
			for i := range 2 {
				v.postCorrect(w, w.qps[i], key.Key)
				w.qps[i].publish()
			}
			v.did(2)
			err = p.wrong()
		}
		p.stopAll()
		if err = errors.Join(err, p.wrong()); err != nil {
			return err
		}
		v.pause(100 * time.Millisecond)
	}
	return nil
}

func burst(v *hostile) time.Duration {
	return time.Duration(100+v.r.IntN(200)) * time.Millisecond
}

// postCorrect posts correct work on all of the memory except the queues.
func (v *hostile) postCorrect(w *objects, q *hostileQP, key uint32) {
	room := w.mem.Size() - atPayload
	for range 1 + v.r.IntN(4) {
		n := 1 + v.r.IntN(min(room, 256<<10))
		at := func() uint64 { return w.mem.Addr() + atPayload + uint64(v.r.IntN(room-n+1)) }
		op := [2]wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead}[v.r.IntN(2)]
		b := wqe.Start(q.sq, q.next)
		b.Raddr(wqe.Raddr{Addr: at(), RKey: key})
		b.Data(wqe.Data{ByteCount: uint32(n), LKey: key, Addr: at()})
		if blocks, err := b.Finish(wqe.Ctrl{Opcode: op, QPN: q.qpn}); err == nil {
			q.next += uint16(blocks)
		}
	}
}

// punching is two threads on one core. One thread removes pages when it gets the core; the other
// keeps the core busy.
type punching struct {
	stop  atomic.Bool
	idle  atomic.Bool // the spinning has ended
	hole  atomic.Pointer[string]
	ended sync.WaitGroup
}

func (v *hostile) startPunching(mem *shm.Region, sealed bool) (*punching, error) {
	p := new(punching)
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", mem.File().Fd()), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	core, first := anyCore(v.r.IntN), v.r.IntN(len(ways))
	p.idle.Store(v.r.IntN(4) == 0) // sometimes remove pages as fast as possible
	p.ended.Add(2)
	go func() {
		defer p.ended.Done()
		defer again.Close()
		runtime.LockOSThread() // the thread ends with the goroutine
		pin(core)
		if v.meter != nil { // not a test
			idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
			_ = unix.SchedSetAttr(0, &idle, 0)
		}
		for i := first; !p.stop.Load(); i++ {
			way := ways[i%len(ways)]
			if err := way.try(mem, int(again.Fd())); err == nil && way.holes && sealed {
				p.hole.Store(&way.name)
			}
		}
	}()
	go func() {
		defer p.ended.Done()
		runtime.LockOSThread()
		pin(core)
		for !p.stop.Load() && !p.idle.Load() { // spin
		}
	}()
	return p, nil
}

func (p *punching) stopSpinning() { p.idle.Store(true) }

func (p *punching) stopAll() {
	p.stop.Store(true)
	p.ended.Wait()
}

// wrong returns a fault if pages were removed. It names the call that removed them.
func (p *punching) wrong() error {
	if way := p.hole.Load(); way != nil {
		return verdict.New(verdict.Failed, "the kernel refuses", "pages of memory that the engine uses were removed by %s", *way)
	}
	return nil
}

// ways are calls that can delay a thread that touches the memory. Calls that make holes must
// fail once the memory is sealed.
var ways = []struct {
	name  string
	holes bool
	try   func(mem *shm.Region, again int) error
}{
	{"fallocate", true, func(mem *shm.Region, _ int) error { return punchHole(int(mem.File().Fd()), mem.Size()) }},
	{"MADV_REMOVE", true, func(mem *shm.Region, _ int) error { return unix.Madvise(mem.Bytes(), unix.MADV_REMOVE) }},
	{"fallocate of the reopened file", true, func(mem *shm.Region, again int) error { return punchHole(again, mem.Size()) }},
	{"truncation", true, func(_ *shm.Region, again int) error { return unix.Ftruncate(again, 0) }},
	{"", false, func(mem *shm.Region, again int) error { return unix.Fallocate(again, 0, 0, int64(mem.Size())) }},
	{"", false, func(mem *shm.Region, _ int) error { return unix.Madvise(mem.Bytes(), unix.MADV_COLLAPSE) }},
	{"", false, func(mem *shm.Region, _ int) error { return unix.Madvise(mem.Bytes(), unix.MADV_PAGEOUT) }},
	{"", false, func(mem *shm.Region, _ int) error { return unix.Madvise(mem.Bytes(), unix.MADV_DONTNEED) }},
	{"", false, func(mem *shm.Region, _ int) error { return unix.Madvise(mem.Bytes(), unix.MADV_POPULATE_WRITE) }},
	{"", false, func(_ *shm.Region, again int) error { return unix.Fsync(again) }},
}

func punchHole(fd, size int) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(size))
}
