package nicless

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"weak"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// SRQConfig is the configuration of a shared receive queue. The zero value works.
type SRQConfig struct {
	MaxWR  int // receives that fit into the queue; zero means 1023
	MaxSGE int // pieces of memory per receive; zero means 4
	Limit  int // the initial limit, see SRQ.SetLimit; zero means none
}

// An SRQ is a receive queue that several queue pairs share. Each message to any of these
// queue pairs takes the next receive of the SRQ. The keys in the receives must belong to
// the domain of the SRQ, not to the domains of the queue pairs.
type SRQ struct {
	pd     *PD
	c      *client // of pd's context
	srqn   uint32
	srq    *hostpath.SRQ
	ring   block // memory of the entries
	rec    block // the doorbell record
	closed atomic.Bool
}

// CreateSRQ makes a shared receive queue.
func (p *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	const what = "SRQ"
	if err := p.usable(what); err != nil {
		return nil, err
	}
	if cfg.MaxWR == 0 {
		cfg.MaxWR = 1023
	}
	if cfg.MaxSGE == 0 {
		cfg.MaxSGE = 4
	}
	// One entry of the ring is never used.
	if most := 1<<p.ctx.limits.MaxLogRQ - 1; cfg.MaxWR < 1 || cfg.MaxWR > most {
		return nil, wrap(what, fmt.Errorf("MaxWR %d; 1 to %d are possible", cfg.MaxWR, most))
	}
	if cfg.MaxSGE < 1 || cfg.MaxSGE > 31 {
		return nil, wrap(what, fmt.Errorf("MaxSGE %d; 1 to 31 are possible", cfg.MaxSGE))
	}
	if cfg.Limit < 0 {
		return nil, wrap(what, fmt.Errorf("limit %d; 0 to the size of the queue is possible", cfg.Limit))
	}
	q := &SRQ{pd: p, c: p.ctx.client}
	if err := q.create(cfg); err != nil {
		p.ctx.arena.release(q.ring, q.rec)
		return nil, wrap(what, err)
	}
	return q, nil
}

func (q *SRQ) create(cfg SRQConfig) error {
	c := q.c
	if err := c.err(); err != nil {
		return err
	}
	sanitized := c.joinSanitizers()
	entries, stride := roundPow2(cfg.MaxWR+1), roundPow2(cfg.MaxSGE+1)*wqe.UnitSize
	var err error
	q.ring, err = c.arena.alloc(entries * stride)
	if err != nil {
		return err
	}
	q.rec, err = c.arena.alloc(4)
	if err != nil {
		return err
	}
	// NewSRQ writes the links between the entries before the device reads the ring.
	q.srq, err = hostpath.NewSRQ(hostpath.SRQConfig{
		Ring: q.ring.mem[:entries*stride], Stride: stride, Record: q.rec.mem, Stacks: sanitized,
	})
	if err != nil {
		return err
	}
	req := &control.SRQ{
		PDN: q.pd.num, Limit: uint32(cfg.Limit), Ring: q.ring.addr, DBRec: q.rec.addr, LogSize: log2(entries),
		LogStride: log2(stride),
	}
	var ans control.SRQN
	if _, err := c.dev.Call(control.OpCreateSRQ, req, &ans); err != nil {
		return c.failed(err)
	}
	q.srqn = ans.SRQN
	if e := c.early.Load(); e != nil {
		e.addSRQ(q.srqn)
	}
	if sanitized {
		sanitizers.made(c, queueAt{q.srqn, true}, nil, q.srq.Posts())
	}
	c.mu.Lock()
	c.srqs[q.srqn] = weak.Make(q)
	c.mu.Unlock()
	return nil
}

// String returns, for instance, "SRQ 0x000abc".
func (q *SRQ) String() string { return fmt.Sprintf("SRQ %#06x", q.srqn) }

// SRQN returns the number of the queue, 24 bits.
func (q *SRQ) SRQN() uint32 { return q.srqn }

func (q *SRQ) usable() error {
	if q.closed.Load() {
		return ErrClosed
	}
	return q.c.err()
}

// PostRecv posts one receive and rings the doorbell. It returns ErrFull while the queue has
// no room. A piece of length 0 means 1<<31 bytes here, unlike in the receive queue of a
// queue pair.
//
// Only one goroutine at a time may post.
func (q *SRQ) PostRecv(wr *RecvWR) error {
	if err := q.usable(); err != nil {
		return err
	}
	if wr == nil {
		return errNoWR
	}
	if e := q.c.early.Load(); e != nil {
		return q.postRecvEarly(e, wr)
	}
	if err := q.srq.PostRecv(wr); err != nil {
		return err
	}
	q.srq.Ring()
	q.c.waker.wakeOr(q.c.steps.Shared)
	runtime.KeepAlive(q)
	return nil
}

// PostRecvList posts receives in order and rings the doorbell once. On an error it returns
// how many receives were posted before the refused one.
func (q *SRQ) PostRecvList(wrs []RecvWR) (int, error) {
	if err := q.usable(); err != nil {
		return 0, err
	}
	if e := q.c.early.Load(); e != nil {
		return postEach(wrs, func(wr *RecvWR) error { return q.postRecvEarly(e, wr) })
	}
	n, err := q.srq.PostRecvList(wrs)
	q.c.waker.wakeOr(q.c.steps.Shared)
	runtime.KeepAlive(q)
	return n, err
}

// SetLimit requests one EventSRQLimit, which comes when the number of receives that are left
// is less than limit. The event turns the limit off, and so does a limit of 0.
func (q *SRQ) SetLimit(limit int) error {
	const what = "SRQ limit"
	if q.closed.Load() {
		return wrap(what, ErrClosed)
	}
	if limit < 0 || limit > 1<<16 {
		return wrap(what, control.Errorf(control.CodeInvalid, "%d; 0 to the size of the queue is possible", limit))
	}
	req := &control.SRQLimit{SRQN: q.srqn, Limit: uint32(limit)}
	_, err := q.c.call(what, control.OpModifySRQ, req, &control.Empty{})
	return err
}

// Query returns the limit that is set. It is 0 if none is set, and after the limit's event.
func (q *SRQ) Query() (limit int, err error) {
	const what = "query SRQ"
	if q.closed.Load() {
		return 0, wrap(what, ErrClosed)
	}
	var ans control.SRQLimit
	_, err = q.c.call(what, control.OpQuerySRQ, &control.SRQN{SRQN: q.srqn}, &ans)
	return int(ans.Limit), err
}

// Close destroys the queue and drops its receives. It returns ErrBusy while queue pairs use
// the queue. Do not post to the queue during Close. A second Close does nothing.
func (q *SRQ) Close() error {
	if q == nil || q.pd == nil {
		return errZero
	}
	c := q.c
	return closing(q.pd.ctx, &q.closed, func() error {
		if _, err := c.call("close SRQ", control.OpDestroySRQ, &control.SRQN{SRQN: q.srqn},
			&control.Empty{}); err != nil {
			return err
		}
		if e := c.early.Load(); e != nil {
			e.dropSRQ(q.srqn)
		}
		c.mu.Lock()
		delete(c.srqs, q.srqn)
		c.mu.Unlock()
		c.arena.release(q.ring, q.rec)
		return nil
	})
}
