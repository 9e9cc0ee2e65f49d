package nicless

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// CQConfig is the configuration of a completion queue. The zero value works.
type CQConfig struct {
	// Entries is how many completions the queue holds. It is rounded up to a power of two.
	// Zero means 256. A queue that overflows takes no more completions, and the queue
	// pairs that use it go to the error state: see ErrOverrun.
	Entries int

	// Size128 asks for entries of 128 bytes.
	Size128 bool

	// Channel reports completions; see CQ.Arm. If Channel is nil, the queue gets its own
	// channel, which CQ.Wait uses.
	Channel *Channel

	// PollOnly makes a queue without a completion channel. CQ.Wait is not possible then, and
	// the queue needs no file descriptor.
	PollOnly bool

	// IgnoreOverrun lets the device continue when the queue has no room: it overwrites
	// completions that have not been polled, and these are lost.
	IgnoreOverrun bool

	// Collapsed makes a queue of one entry, which the device overwrites. Poll returns only
	// the newest completion. All earlier work of the same queue pair is then complete too.
	// The completion has ID, opcode and status, but no byte count, immediate or time. A
	// Collapsed queue is always PollOnly.
	Collapsed bool

	// Compressed lets the device compress the completions of short work that was announced
	// together: it then writes 8 bytes in place of an entry of 64 bytes. Poll returns the same
	// completions as without compression. A Compressed queue has entries of 64 bytes, and is
	// not Collapsed. Code that reads entries itself (QP.Raw) cannot use the queue.
	Compressed bool
}

// A CQ is a completion queue.
type CQ struct {
	ctx     *Context
	c       *client // of ctx
	cqn     uint32
	cq      *hostpath.CQ
	buf     block // memory of the entries
	rec     block // the doorbell record
	cfg     CQConfig
	channel *Channel    // nil: PollOnly
	handle  uint64      // the queue's handle in channel
	armed   atomic.Bool // whether Wait has requested an event for any completion, and not read it yet

	overrun  atomic.Bool  // the device has ended the queue
	senders  atomic.Int32 // number of queue pairs that have this queue as SendCQ
	exported atomic.Bool  // the queue is Collapsed, and reserved for one queue pair by QP.Export
	closed   atomic.Bool

	changes sync.Mutex // held by Resize and Close
}

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(cfg CQConfig) (*CQ, error) {
	const what = "CQ"
	if err := c.err(); err != nil {
		return nil, wrap(what, err)
	}
	log, err := cfg.fill(c)
	if err != nil {
		return nil, wrap(what, err)
	}
	q := &CQ{ctx: c, c: c.client, cfg: cfg}
	q.buf, err = c.arena.alloc(cfg.entrySize() << log)
	if err != nil {
		return nil, wrap(what, err)
	}
	q.rec, err = c.arena.alloc(8)
	if err != nil {
		c.arena.release(q.buf)
		return nil, wrap(what, err)
	}
	if err := q.create(log); err != nil {
		q.release()
		return nil, err
	}
	return q, nil
}

// fill checks the configuration, sets the defaults, and returns log2 of the number of
// entries.
func (cfg *CQConfig) fill(c *Context) (log int, err error) {
	if cfg.Collapsed {
		if cfg.Channel != nil || cfg.Entries > 1 {
			return 0, fmt.Errorf("a collapsed queue has one entry and no Channel")
		}
		cfg.Entries, cfg.PollOnly = 1, true
	}
	if cfg.Compressed && (cfg.Collapsed || cfg.Size128) {
		return 0, errors.New("a compressed queue has entries of 64 bytes, and is not collapsed")
	}
	if ch := cfg.Channel; ch != nil {
		switch {
		case ch.ctx != c:
			return 0, errors.New("Channel belongs to another context")
		case cfg.PollOnly:
			return 0, errors.New("PollOnly with a Channel")
		case ch.closed.Load():
			return 0, fmt.Errorf("Channel: %w", ErrClosed)
		}
	}
	if cfg.Entries == 0 {
		cfg.Entries = 256
	}
	return cfg.log(c, cfg.Entries)
}

// log returns log2 of the ring's size for a queue that holds entries completions.
func (cfg *CQConfig) log(c *Context, entries int) (int, error) {
	if most := 1 << c.limits.MaxLogCQ; entries < 1 || entries > most {
		return 0, fmt.Errorf("%d entries; 1 to %d are possible", entries, most)
	}
	return bits.Len(uint(entries - 1)), nil
}

// entrySize returns the size of an entry in bytes.
func (cfg *CQConfig) entrySize() int {
	if cfg.Size128 {
		return cqe.Size128
	}
	return cqe.Size
}

func (q *CQ) create(log int) (err error) {
	const what = "CQ"
	c, cfg := q.ctx, &q.cfg
	req := control.CQ{Buf: q.buf.addr, DBRec: q.rec.addr, LogSize: uint8(log), LogCQE: log2(cfg.entrySize())}
	if cfg.Collapsed {
		req.Flags |= control.CQCollapsed | control.CQIgnoreOverrun
	}
	if cfg.IgnoreOverrun {
		req.Flags |= control.CQIgnoreOverrun
	}
	if cfg.Compressed {
		req.Flags |= control.CQCompressed
		req.MiniFormat = control.MiniHash
	}
	if !cfg.PollOnly {
		q.channel = cfg.Channel
		if q.channel == nil {
			q.channel, err = c.CreateChannel()
			if err != nil {
				return err
			}
		}
		q.handle = q.channel.add(q)
		req.Channel, req.Handle = q.channel.id, q.handle
	}
	var ans control.CQN
	if _, err := c.call(what, control.OpCreateCQ, &req, &ans); err != nil {
		return err
	}
	q.cqn = ans.CQN
	// NewCQ prepares the entries. It comes after the call, because it needs the number that the
	// device gave. It is early enough: there are no completions before a queue pair uses the CQ.
	q.cq, err = hostpath.NewCQ(hostpath.CQConfig{
		Ring: q.buf.mem[:cfg.entrySize()<<log], EntrySize: cfg.entrySize(), CQN: ans.CQN, Table: &c.table,
		Collapsed:  cfg.Collapsed,
		Compressed: cfg.Compressed, MiniFormat: cqe.MiniHash, Record: q.rec.mem, Register: c.armRegister(),
		Reasons: c.statusPage,
	})
	if err != nil {
		return wrap(what, err)
	}
	c.mu.Lock()
	c.cqs[q.cqn] = weak.Make(q)
	c.mu.Unlock()
	return nil
}

// release gives back what a queue had on this side and, unless the device is gone, on the
// device's side.
func (q *CQ) release() {
	c := q.ctx
	c.mu.Lock()
	delete(c.cqs, q.cqn)
	c.mu.Unlock()
	if q.channel != nil {
		q.channel.remove(q.handle)
		if q.cfg.Channel == nil {
			_ = q.channel.Close()
		}
	}
	c.arena.release(q.buf, q.rec)
}

// String returns, for instance, "CQ 0x000abc".
func (q *CQ) String() string { return fmt.Sprintf("CQ %#06x", q.cqn) }

// CQN returns the number of the queue, 24 bits.
func (q *CQ) CQN() uint32 { return q.cqn }

// Poll takes completions off the queue until dst is full or there are no more, and returns
// how many it took. It does not wait. The error is ErrClosed if the queue is closed. When no
// completion is left, the error is ErrDeviceGone if the device is gone, and ErrOverrun if
// the queue has overflowed. Otherwise the error is nil.
//
// Only one goroutine at a time may poll.
func (q *CQ) Poll(dst []Completion) (int, error) {
	c := q.c
	if c == nil {
		return 0, errZero
	}
	if q.closed.Load() || c.closed.Load() {
		return 0, ErrClosed
	}
	var n int
	if e := c.early.Load(); e != nil {
		n = e.poll(q.cq, dst)
	} else {
		n = q.cq.Poll(dst)
	}
	if n == 0 {
		if c.gone.Load() {
			if n = q.take(dst); n > 0 { // the device's last completions
				return n, nil
			}
			return 0, ErrDeviceGone
		}
		if q.overrun.Load() {
			return q.last(dst)
		}
		if c.uniprocessor {
			cpu.Yield() // lets the engine run, if it is on this core
		}
	}
	runtime.KeepAlive(q) // this keeps the memory of the queue
	return n, nil
}

// take takes completions. Poll does the same without another call.
func (q *CQ) take(dst []Completion) int {
	if e := q.c.early.Load(); e != nil {
		return e.poll(q.cq, dst)
	}
	return q.cq.Poll(dst)
}

// TryPoll is Poll for a queue that several goroutines or accelerators poll. While one of
// them is polling, TryPoll returns 0 to the others at once. Completions that one poller
// takes make room in the queue pairs for all posters. On one queue, TryPoll must not be
// mixed with Poll and Wait.
//
// Any number of goroutines may call TryPoll at once.
func (q *CQ) TryPoll(dst []Completion) (int, error) {
	if err := q.open(); err != nil {
		return 0, err
	}
	var n int
	var ok bool
	if e := q.c.early.Load(); e != nil {
		n, ok = e.tryPoll(q.cq, dst)
	} else {
		n, ok = q.cq.TryPoll(dst)
	}
	runtime.KeepAlive(q)
	switch {
	case n > 0:
		return n, nil
	case q.c.gone.Load():
		return 0, ErrDeviceGone
	case ok && q.overrun.Load():
		return 0, ErrOverrun
	}
	return 0, nil
}

// open returns why the queue cannot be polled, or nil. It returns nil even if the device is
// gone, because completions can still be taken then.
func (q *CQ) open() error {
	switch {
	case q.c == nil:
		return errZero
	case q.closed.Load() || q.c.closed.Load():
		return ErrClosed
	}
	return nil
}

// spins is how often Wait polls before it sleeps. That takes a few microseconds, as long as
// an engine that is awake needs to execute short work. On one core each poll lets others run
// already, and what waits for a file or the network runs only when no goroutine is runnable. There,
// spinning would only delay them.
const spins, spinsOnOneCore = 500, 4

// Wait is Poll, but waits until there is at least one completion. If ctx ends first, Wait
// returns ctx.Err(). Wait spins for a few microseconds and then sleeps. When the queue has
// overflowed and no completion is left in it, the error is ErrOverrun.
//
// Only one goroutine at a time may poll.
func (q *CQ) Wait(ctx context.Context, dst []Completion) (int, error) {
	if err := q.open(); err != nil || len(dst) == 0 {
		return 0, err
	}
	tries := spins
	if q.c.uniprocessor {
		tries = spinsOnOneCore
	}
	for range tries {
		if n, err := q.Poll(dst); n > 0 || err != nil {
			return n, err
		}
	}
	switch {
	case q.channel == nil:
		return 0, errors.New("nicless: CQ was made with PollOnly: it cannot wait")
	case q.cfg.Channel != nil:
		return 0, errors.New("nicless: CQ has a Channel that others use: Arm it, and wait there")
	}
	defer q.channel.until(ctx)()
	for {
		// Each arm leads to one event. While an event is on its way or waits to be read,
		// another arm would only cause a second event, which is not needed.
		if !q.armed.Swap(true) {
			q.cq.Arm(false)
			q.c.waker.wakeOr(q.c.steps.Look)
		}
		if n, err := q.Poll(dst); n > 0 || err != nil {
			return n, err
		}
		if _, err := q.channel.next(ctx); err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if n, err := q.Poll(dst); n > 0 || err != nil {
				return n, err // the last completions
			}
			return 0, err
		}
	}
}

// last returns what is left in a queue that has overrun. Completions may have come after
// the last poll and before the report of the overrun.
func (q *CQ) last(dst []Completion) (int, error) {
	if n := q.take(dst); n > 0 {
		return n, nil
	}
	return 0, ErrOverrun
}

// Channel returns the channel that reports this queue's completions: CQConfig.Channel, or
// the queue's own channel if that was nil. With PollOnly it returns nil.
func (q *CQ) Channel() *Channel { return q.channel }

// Arm requests one event on the queue's Channel for the next completion that has not been
// polled. If solicited is true, only an error, or the completion of a message that was sent
// with flag Solicited, causes the event. To sleep without missing a completion: arm, poll
// until the queue is empty, then wait on the Channel. CQ.Wait does these three steps itself.
//
// Only the goroutine that polls may call Arm.
func (q *CQ) Arm(solicited bool) error {
	if q.closed.Load() {
		return ErrClosed
	}
	if err := q.c.err(); err != nil {
		return err
	}
	if q.channel == nil {
		return errors.New("nicless: CQ was made with PollOnly: it has no channel for events")
	}
	q.cq.Arm(solicited)
	q.c.waker.wakeOr(q.c.steps.Look)
	q.armed.Store(!solicited)
	return nil
}

// Index returns how many completions have been polled since the queue was made. Each
// Resize counts as one more. When the queue is empty, a WaitCQ for Index plus n waits for
// n more completions. Index wraps at 1<<32. Only the goroutine that polls may call Index.
func (q *CQ) Index() uint32 {
	if q.c == nil {
		return 0
	}
	return q.cq.Index()
}

// Resize changes the number of entries of the queue. entries is rounded up to a power of
// two. No completion is lost: Resize returns ErrInvalid if the completions that have not
// been polled would not fit. The queue must not be polled during Resize. Its queue pairs
// may be used.
func (q *CQ) Resize(entries int) error {
	const what = "resize CQ"
	if q.c == nil {
		return wrap(what, errZero)
	}
	q.changes.Lock()
	defer q.changes.Unlock()
	if q.closed.Load() {
		return wrap(what, ErrClosed)
	}
	if q.cfg.Collapsed || q.cfg.IgnoreOverrun {
		return wrap(what, control.Errorf(control.CodeInvalid, "a queue made with Collapsed or IgnoreOverrun keeps its size"))
	}
	c := q.ctx
	log, err := q.cfg.log(c, entries)
	if err != nil {
		return wrap(what, control.Errorf(control.CodeInvalid, "%v", err))
	}
	size := q.cfg.entrySize()
	to, err := c.arena.alloc(size << log)
	if err != nil {
		return wrap(what, err)
	}
	moved := false
	err = q.cq.Resize(to.mem[:size<<log], func() error {
		req := &control.ResizeCQ{CQN: q.cqn, LogSize: uint8(log), LogCQE: log2(size), Buf: to.addr}
		_, err := c.call(what, control.OpResizeCQ, req, &control.Empty{})
		moved = err == nil
		return err
	})
	if !moved {
		c.arena.release(to)
		return err
	}
	c.arena.release(q.buf)
	q.buf = to
	return err
}

// Close destroys the queue. It returns ErrBusy while queue pairs use the queue. The queue
// must not be polled during Close. A second Close does nothing.
func (q *CQ) Close() error {
	if q == nil {
		return errZero
	}
	return closing(q.ctx, &q.closed, func() error {
		q.changes.Lock() // a Resize that was abandoned (see Call) may be under way
		defer q.changes.Unlock()
		if _, err := q.c.call("close CQ", control.OpDestroyCQ, &control.CQN{CQN: q.cqn},
			&control.Empty{}); err != nil {
			return err
		}
		q.release()
		return nil
	})
}

// A waker wakes an engine that sleeps. A poster that has announced work loads one word,
// asleep, which changes only when the engine falls asleep or wakes. While the engine is
// awake, the poster does nothing else.
type waker struct {
	asleep  *shm.Word64             // word of the status page: number of the engine's sleep; 0: it is awake
	last    atomic.Uint64           // the number of the last sleep that this client has ended
	eventfd atomic.Pointer[os.File] // a write to it wakes the engine; nil: it has not been sent yet

	// kick wakes a device that a driver steps, which has no eventfd. It is nil for other devices.
	kick func()

	mu  sync.Mutex
	raw bool // other code writes to the queues too (QP.Raw), and does not read asleep
}

// wake wakes the engine if it sleeps. The caller has announced the work before.
//
// Observe: asleep, after the store of a record or an arm word. The engine's
// barrier orders the two (docs/ORDERING.md, number 16).
func (w *waker) wake() { w.wakeOr(nil) }

// wakeOr is wake for a caller that can execute the announced work itself by step, unless step is nil.
func (w *waker) wakeOr(step func() bool) {
	if sleep := w.asleep.Observe(); sleep != 0 {
		w.stepOr(step, sleep)
	}
}

// stepOr executes the announced work, or wakes the engine from the sleep with that number.
func (w *waker) stepOr(step func() bool, sleep uint64) {
	if sleep == control.StatusNaps {
		sleep = w.afterBarrier()
	}
	if sleep != 0 && sleep != w.last.Load() && (step == nil || !step()) {
		w.signal(sleep)
	}
}

// afterBarrier returns the number of the engine's nap after a full barrier, so that the work was announced
// before; 0: the engine is awake, and finds the work.
func (w *waker) afterBarrier() uint64 {
	w.last.Add(0)
	if sleep := w.asleep.Observe(); sleep != control.StatusNaps {
		return sleep
	}
	return 0
}

// one is the value written to an eventfd. It is a variable so that it is not allocated for
// each write.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// signal wakes the engine from the sleep with that number. One signal for each sleep is
// enough.
func (w *waker) signal(sleep uint64) {
	if w.kick != nil {
		w.kick()
		w.last.Store(sleep)
		return
	}
	if fd := w.eventfd.Load(); fd != nil {
		_, _ = fd.Write(one)
		w.last.Store(sleep)
	}
}

// offerWake promises the engine that all posters of this context wake it. Without
// that promise the engine sleeps for short times only.
func (c *client) offerWake() {
	if shm.JoinBarrier() != nil {
		return
	}
	w := &c.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.raw || c.err() != nil {
		return
	}
	r, err := c.dev.Call(control.OpWake, &control.Wake{Wakes: control.WakeAlways}, &control.Empty{})
	if err != nil || r.Wake == nil {
		return
	}
	w.eventfd.Store(r.Wake)
	w.signal(0) // for posters that found the engine asleep earlier, when there was no eventfd
	if c.closed.Load() {
		w.close()
	}
}

// retractWake takes back the promise of offerWake.
func (c *client) retractWake() {
	_, _ = c.dev.Call(control.OpWake, &control.Wake{}, &control.Empty{})
}

// sharedRaw records that other code writes to queues of this context without checking
// whether the engine sleeps. It takes back the promise to wake the engine.
func (c *client) sharedRaw() {
	w := &c.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.raw {
		return
	}
	w.raw = true
	if w.eventfd.Load() != nil {
		c.retractWake()
	}
}

func (w *waker) close() {
	if fd := w.eventfd.Swap(nil); fd != nil {
		_ = fd.Close()
	}
}
