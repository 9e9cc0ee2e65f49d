package hostpath

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/post"
	"github.com/nicless/nicless/internal/shm"
)

// Completion is the outcome of one work request. Err is nil on success and a
// *cqe.WorkError otherwise.
type Completion = post.Completion

// CQConfig says what a completion queue is to be like. The zero value works.
type CQConfig struct {
	// Entries is how many completions it holds, rounded up to a power of two.
	// Zero means 256. The device ends a queue that overflows, and puts the
	// queue pairs that use it into error: see ErrOverrun.
	Entries int

	// Size128 asks for entries of 128 bytes.
	Size128 bool

	// PollOnly leaves out the completion channel: Wait is not possible, and a
	// descriptor is saved.
	PollOnly bool
}

// A CQ is a completion queue.
type CQ struct {
	ctx    *Context
	cqn    uint32
	cq     *post.CQ
	buf    block
	rec    block
	events *os.File // nil: PollOnly
	id     uint32   // of the channel
	armed  bool     // an event has been asked for and not been read

	overrun bool // the device has ended the queue
	closed  atomic.Bool
}

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(cfg CQConfig) (*CQ, error) {
	const what = "CQ"
	if cfg.Entries == 0 {
		cfg.Entries = 256
	}
	if most := 1 << c.limits.MaxLogCQ; cfg.Entries < 1 || cfg.Entries > most {
		return nil, wrap(what, fmt.Errorf("%d entries; 1 to %d are possible", cfg.Entries, most))
	}
	log := bits.Len(uint(cfg.Entries - 1))
	size, logCQE := 64, 6
	if cfg.Size128 {
		size, logCQE = 128, 7
	}
	q := &CQ{ctx: c}
	var err error
	if q.buf, err = c.arena.alloc(size << log); err != nil {
		return nil, wrap(what, err)
	}
	if q.rec, err = c.arena.alloc(8); err != nil {
		c.arena.release(q.buf)
		return nil, wrap(what, err)
	}
	if err := q.create(cfg, log, logCQE, size); err != nil {
		q.release()
		return nil, err
	}
	return q, nil
}

func (q *CQ) create(cfg CQConfig, log, logCQE, size int) error {
	const what = "CQ"
	c := q.ctx
	req := control.CQ{Buf: q.buf.addr, DBRec: q.rec.addr, LogSize: uint8(log), LogCQE: uint8(logCQE)}
	if !cfg.PollOnly {
		var ch control.Channel
		r, err := c.call(what, control.OpCreateChannel, &control.Empty{}, &ch, nil)
		if err != nil {
			return err
		}
		q.id, q.events, req.Channel = ch.ID, r.Events, ch.ID
	}
	var ans control.CQN
	if _, err := c.call(what, control.OpCreateCQ, &req, &ans, nil); err != nil {
		return err
	}
	q.cqn = ans.CQN
	// The entries are prepared now that the number is known; nothing can
	// complete here before a queue pair uses it.
	pc, err := post.NewCQ(post.CQConfig{
		Ring: q.buf.mem[:size<<log], EntrySize: size, CQN: ans.CQN, Table: &c.table,
		CI: shm.BE32At(q.rec.mem, 0), Arm: shm.BE32At(q.rec.mem, 4), ArmReg: c.armRegister(),
	})
	if err != nil {
		return wrap(what, err)
	}
	q.cq = pc
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.events != nil {
		c.channels[q] = struct{}{}
	}
	return nil
}

// release gives back what a queue had, on this side and, if it is still there,
// on the device's.
func (q *CQ) release() {
	c := q.ctx
	if q.events != nil {
		c.mu.Lock()
		delete(c.channels, q)
		c.mu.Unlock()
		_ = q.events.Close()
		_, _ = c.call("CQ", control.OpDestroyChannel, &control.Channel{ID: q.id}, &control.Empty{}, nil)
	}
	c.arena.release(q.buf, q.rec)
}

// CQN returns the number of the queue, 24 bits.
func (q *CQ) CQN() uint32 { return q.cqn }

// Poll takes completions off the queue until dst is full or there are no more,
// and returns how many; it does not wait. The error is nil unless the queue is
// closed, or the device is gone and nothing was left.
//
// One poller at a time.
func (q *CQ) Poll(dst []Completion) (int, error) {
	if q.closed.Load() || q.ctx.closed.Load() {
		return 0, ErrClosed
	}
	n := q.cq.Poll(dst)
	if n == 0 {
		if q.ctx.gone.Load() {
			return 0, ErrDeviceGone
		}
		// Who polls in a loop leaves the line to its writer for a moment:
		// 10 ns off a round trip of 275.
		shm.Relax(1)
	}
	return n, nil
}

// spins is how often Wait polls before it sleeps: a few microseconds, in which
// an engine that is awake answers.
const spins = 500

// Wait is Poll that waits for the first completion, or for the end of ctx,
// whose error it then returns. When the queue has overflowed and nothing is
// left in it, the error is ErrOverrun. It spins for a few microseconds, then sleeps.
//
// One poller at a time.
func (q *CQ) Wait(ctx context.Context, dst []Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for range spins {
		if n, err := q.Poll(dst); n > 0 || err != nil {
			return n, err
		}
	}
	if q.overrun {
		return q.last(dst)
	}
	if q.events == nil {
		return 0, errors.New("nicless: CQ was made with PollOnly: it cannot wait")
	}
	_ = q.events.SetReadDeadline(time.Time{})
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = q.events.SetReadDeadline(time.Unix(1, 0)) // ends a read that is under way
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken // or it would end the next call's read
		}
	}()
	for {
		// One arm, one event: while an event is on its way, or waits to be read,
		// another arm would only leave a second one behind.
		if !q.armed {
			q.cq.Arm(false)
			q.armed = true
		}
		if n, err := q.Poll(dst); n > 0 || err != nil {
			return n, err
		}
		var event [8]byte
		n, _ := q.events.Read(event[:])
		switch {
		case n > 0 && event[7]>>7 == 1: // control.ChannelOverrun
			q.overrun = true
			return q.last(dst)
		case n > 0:
			q.cq.EventSeen()
			q.armed = false
		case ctx.Err() != nil:
			return 0, ctx.Err()
		default:
			return q.last(dst) // the other end closes with the engine
		}
	}
}

// last returns what is left when the events have ended: completions, else why.
func (q *CQ) last(dst []Completion) (int, error) {
	if n, err := q.Poll(dst); n > 0 || err != nil {
		return n, err
	}
	if q.overrun {
		return 0, ErrOverrun
	}
	return 0, ErrDeviceGone
}

// Close destroys the queue. ErrBusy while queue pairs use it. Nobody may poll
// it meanwhile. Closing twice does nothing.
func (q *CQ) Close() error {
	return closing(q.ctx, &q.closed, func() error {
		if _, err := q.ctx.call("close CQ", control.OpDestroyCQ, &control.CQN{CQN: q.cqn}, &control.Empty{}, nil); err != nil {
			return err
		}
		q.release()
		return nil
	})
}
