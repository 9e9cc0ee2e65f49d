package nicless

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// QPConfig is the configuration of a queue pair. SendCQ must be set. For all other fields
// the zero value works.
type QPConfig struct {
	Type   Transport // RC, UC or UD; zero means RC
	SendCQ *CQ
	RecvCQ *CQ  // nil means SendCQ
	SRQ    *SRQ // the source of receives; nil means that the queue pair has its own receive queue

	// MaxSendWR is how many sends of MaxSendSGE pieces or MaxInline bytes fit into the
	// queue; zero means 128. A BindMW takes the room of two sends of the default size. A
	// BindList of n entries takes the room of (n+11)/8 sends of the default size.
	MaxSendWR  int
	MaxRecvWR  int // receives that fit into the queue; zero means 128
	MaxSendSGE int // pieces of memory per send; zero means 4
	MaxRecvSGE int // pieces of memory per receive; zero means 4
	MaxInline  int // bytes of Data per send; zero means 60

	// QKey is for UD only: the key that datagrams must carry to be received.
	QKey uint32

	// Managed makes posted sends wait until a SendEnable of another queue pair of this
	// context lets the queue execute them.
	Managed bool

	// SignalAll makes every send deliver a completion.
	SignalAll bool

	// Concurrent allows any number of goroutines to post sends at once, and accelerators to
	// use the queue (see Export). A single poster then needs some ten nanoseconds more for
	// each send.
	Concurrent bool

	// BlueFlame is for RC and UC. Sends of one block that are posted one by one are also
	// written into a BlueFlame register of the device. The device may execute them from
	// there, which saves it the fetch of a cache line. Each such queue pair takes one of the
	// eight BlueFlame registers of the context. BlueFlame allows only one poster, and cannot
	// be combined with Managed or Concurrent.
	BlueFlame bool

	// Doorbells is what starts posted sends. Zero means DoorbellRecord.
	Doorbells Doorbells

	// Stacks notes where each send is posted, for the error of its completion (FaultError.Stack). A post
	// then takes a microsecond more. With NICLESS_STACKS=1 in the environment, as nicless run --stacks sets
	// it, all queue pairs have it.
	Stacks bool

	// Deny takes away rights that the peer has by default: RemoteWrite, RemoteRead,
	// RemoteAtomic.
	Deny Access
}

// Doorbells says what starts the work of a send queue.
type Doorbells uint8

const (
	// DoorbellRecord: the doorbell record announces sends. The register only announces them sooner.
	DoorbellRecord = Doorbells(control.DoorbellRecord)

	// DoorbellRegister: the doorbell register announces sends, and the engine does not read the send word of
	// the record, as on queues of mlx5 without records (send_dbr_mode). Each such queue pair has a register
	// of its own, one of the eight of the context that BlueFlame takes too.
	DoorbellRegister = Doorbells(control.DoorbellRegister)

	// DoorbellGuarded: the record or the register announces sends, and the bytes of a WQE may arrive after
	// both, as those of a GPU do that stores without a fence for the whole system. The engine executes a WQE
	// when all of it is there. It fills each slot of the ring whose WQE it has taken with a mark, and copies
	// WQEs into a ring of its own; see docs/VERBS.md for the cost.
	DoorbellGuarded = Doorbells(control.DoorbellGuarded)
)

// String returns "record", "register" or "guarded".
func (d Doorbells) String() string {
	switch d {
	case DoorbellRecord:
		return "record"
	case DoorbellRegister:
		return "register"
	case DoorbellGuarded:
		return "guarded"
	}
	return fmt.Sprintf("doorbells %d", uint8(d))
}

// A QP is a queue pair: a send queue, and a receive queue of its own or an SRQ.
type QP struct {
	pd         *PD
	c          *client // of pd's context
	qpn        uint32
	transport  Transport
	qkey       atomic.Uint32
	index      uint32             // index of the queue pair in the context's table
	sq         *hostpath.SQ       // nil if sharedSQ is used
	sharedSQ   *hostpath.SharedSQ // of a Concurrent queue pair; nil if sq is used
	sends      *hostpath.SendRing // the ring of sq or sharedSQ
	rq         *hostpath.RQ       // nil: receives come from srq
	srq        *SRQ
	cqs        [2]*CQ        // SendCQ and RecvCQ, which may be the same
	rings      block         // memory of the receive ring, then of the send ring
	rec        block         // the doorbell record
	register   []byte        // the UAR register, both halves
	registerAt uint64        // offset of register in the UAR pages
	blueFlame  int           // 1 + index of the register that is the queue pair's own; 0: none
	flames     bool          // WQEs are written into it (QPConfig.BlueFlame)
	access     Access        // rights of the peer
	state      atomic.Uint32 // control.State*, as this side last set it
	closed     atomic.Bool
	peerRemote atomic.Bool // this side has last told the engine that the peer is on another engine

	// They execute announced sends, or what waits for a receive, on the calling goroutine; nil: not possible.
	step, stepReceive func() bool

	changes sync.Mutex // held by Modify and Close

	mu   sync.Mutex
	sink *MR // 8 bytes for results of atomics that are not read; made by the first Export
}

// CreateQP makes a queue pair, in state INIT. Receives can be posted at once. Sends can be
// posted after Connect or, on UD, after Activate.
func (p *PD) CreateQP(cfg QPConfig) (*QP, error) {
	const what = "QP"
	if err := p.usable(what); err != nil {
		return nil, err
	}
	if err := cfg.fill(p.ctx); err != nil {
		return nil, wrap(what, err)
	}
	q := &QP{
		pd: p, c: p.ctx.client, transport: cfg.Type, srq: cfg.SRQ, cqs: [2]*CQ{cfg.SendCQ, cfg.RecvCQ},
		access: FullAccess &^ LocalWrite &^ cfg.Deny,
	}
	index, err := p.ctx.table.Alloc()
	if err != nil {
		return nil, wrap(what, err)
	}
	q.index = index
	cfg.SendCQ.senders.Add(1)
	if err := q.create(cfg); err != nil {
		q.release()
		return nil, err
	}
	if steps := &q.c.steps; steps.Sends != nil {
		q.step, q.stepReceive = steps.Sends(q.qpn), steps.Receives(q.qpn)
	}
	if err := q.toInit(cfg.QKey); err != nil {
		_ = q.Close()
		return nil, err
	}
	return q, nil
}

func (cfg *QPConfig) fill(c *Context) error {
	if cfg.RecvCQ == nil {
		cfg.RecvCQ = cfg.SendCQ
	}
	for _, q := range []*CQ{cfg.SendCQ, cfg.RecvCQ} {
		switch {
		case q == nil:
			return errors.New("no SendCQ")
		case q.ctx == nil:
			return fmt.Errorf("CQ: %w", errZero)
		case q.ctx != c:
			return fmt.Errorf("CQ %#06x belongs to another context", q.cqn)
		case q.closed.Load():
			return fmt.Errorf("CQ %#06x: %w", q.cqn, ErrClosed)
		}
	}
	switch {
	case cfg.SendCQ.exported.Load():
		return fmt.Errorf("SendCQ %#06x is collapsed and was exported with another queue pair", cfg.SendCQ.cqn)
	case cfg.Type > UD:
		return fmt.Errorf("transport %d; RC (%d), UC (%d) and UD (%d) are possible", cfg.Type, RC, UC, UD)
	case cfg.BlueFlame && (cfg.Type == UD || cfg.Concurrent || cfg.Managed):
		return fmt.Errorf("BlueFlame with transport %v, Concurrent %v, Managed %v; RC or UC and neither are possible", cfg.Type, cfg.Concurrent, cfg.Managed)
	case cfg.Doorbells > DoorbellGuarded:
		return fmt.Errorf("Doorbells %d; DoorbellRecord (%d), DoorbellRegister (%d) and DoorbellGuarded (%d) are possible", cfg.Doorbells, DoorbellRecord, DoorbellRegister, DoorbellGuarded)
	case cfg.Doorbells != DoorbellRecord && (cfg.BlueFlame || cfg.Managed):
		return fmt.Errorf("Doorbells %v with BlueFlame %v, Managed %v; neither is possible", cfg.Doorbells, cfg.BlueFlame, cfg.Managed)
	case cfg.SRQ == nil:
	case cfg.SRQ.pd == nil:
		return fmt.Errorf("SRQ: %w", errZero)
	case cfg.SRQ.pd.ctx != c:
		return fmt.Errorf("SRQ %#06x belongs to another context", cfg.SRQ.srqn)
	case cfg.SRQ.closed.Load():
		return fmt.Errorf("SRQ %#06x: %w", cfg.SRQ.srqn, ErrClosed)
	case cfg.RecvCQ.cfg.Collapsed:
		return fmt.Errorf("CQ %#06x is collapsed and cannot tell which receives of an SRQ are done", cfg.RecvCQ.cqn)
	}
	for _, f := range []struct {
		name      string
		v         *int
		def, most int
	}{
		{"MaxSendWR", &cfg.MaxSendWR, 128, 32768},
		{"MaxRecvWR", &cfg.MaxRecvWR, 128, 32768},
		{"MaxSendSGE", &cfg.MaxSendSGE, 4, 30},
		{"MaxRecvSGE", &cfg.MaxRecvSGE, 4, 32},
		{"MaxInline", &cfg.MaxInline, 60, 828},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 1 || *f.v > f.most {
			return fmt.Errorf("%s %d; 1 to %d are possible", f.name, *f.v, f.most)
		}
	}
	return nil
}

// sendBlocks returns the size of the send ring in blocks: enough for MaxSendWR requests of
// the largest size.
func (cfg *QPConfig) sendBlocks() int {
	payload := max(cfg.MaxSendSGE*wqe.UnitSize, (4+cfg.MaxInline+wqe.UnitSize-1)&^(wqe.UnitSize-1))
	head := wqe.CtrlSize + wqe.RaddrSize
	if cfg.Type == UD {
		head = wqe.CtrlSize + wqe.AVSize
	}
	perWR := (head + payload + wqe.BlockSize - 1) / wqe.BlockSize
	return roundPow2(max(cfg.MaxSendWR*perWR, minSendBlocks))
}

// minSendBlocks is the size of the smallest send ring, which has room for a BindList of 8
// entries.
const minSendBlocks = 4

// roundPow2 returns the least power of two that is not less than n.
func roundPow2(n int) int { return 1 << bits.Len(uint(n-1)) }

func (q *QP) create(cfg QPConfig) error {
	const what = "QP"
	c := q.c
	sanitized := c.joinSanitizers()
	sendBlocks, recvs, stride := cfg.sendBlocks(), roundPow2(cfg.MaxRecvWR),
		roundPow2(cfg.MaxRecvSGE)*wqe.UnitSize
	if most := 1 << c.limits.MaxLogSQ; sendBlocks > most {
		return wrap(what, fmt.Errorf("%d sends of the size asked for need %d blocks of 64 bytes; %d are possible", cfg.MaxSendWR, sendBlocks, most))
	}
	rqSize, sqSize := max(recvs*stride, wqe.BlockSize), sendBlocks*wqe.BlockSize
	if q.srq != nil {
		rqSize = 0
	}
	var err error
	q.rings, err = c.arena.alloc(rqSize + sqSize)
	if err != nil {
		return wrap(what, err)
	}
	q.rec, err = c.arena.alloc(8)
	if err != nil {
		return wrap(what, err)
	}
	// The receive ring comes first and the send ring after it, as in rdma-core.
	var page uint16
	var at uint64
	if cfg.Doorbells == DoorbellRegister {
		// A register that other queues ring could lose its doorbell.
		q.blueFlame, err = c.takeBlueFlame()
		if err != nil {
			return wrap(what, err)
		}
		page, at = c.ownRegister(q.blueFlame - 1)
	} else {
		page, at = c.register()
	}
	register := c.registers[at : at+doorbell.BFRegSize]
	q.register, q.registerAt = register, at
	req := &control.QP{
		PDN: q.pd.num, SendCQN: cfg.SendCQ.cqn, RecvCQN: cfg.RecvCQ.cqn, UserIndex: q.index,
		SQ: q.rings.addr + uint64(rqSize), DBRec: q.rec.addr, UAR: page, Type: uint8(q.transport),
		LogSQ: log2(sendBlocks), Doorbells: uint8(cfg.Doorbells),
	}
	var blueFlame []byte
	if cfg.BlueFlame {
		q.blueFlame, err = c.takeBlueFlame()
		if err != nil {
			return wrap(what, err)
		}
		q.flames = true
		req.UAR, req.BlueFlame, blueFlame = c.blueFlame(q.blueFlame - 1)
	}
	if cfg.Managed {
		req.Managed = 1
	}
	if q.srq != nil {
		req.NoReceive, req.SRQN = 1, q.srq.srqn
	} else {
		req.RQ, req.LogRQ, req.LogRQStride = q.rings.addr, log2(recvs), log2(stride)
	}
	var ans control.QPN
	if _, err := c.call(what, control.OpCreateQP, req, &ans); err != nil {
		return err
	}
	q.qpn = ans.QPN
	sends := hostpath.SQConfig{
		Ring: q.rings.mem[rqSize : rqSize+sqSize], Record: q.rec.mem, Register: register,
		QPN: q.qpn, Transport: q.transport, SigAll: cfg.SignalAll, MaxInline: cfg.MaxInline,
		MaxSGE: cfg.MaxSendSGE, BlueFlame: blueFlame, Stacks: cfg.Stacks || sanitized || allStacks(),
	}
	if cfg.Concurrent {
		q.sharedSQ, err = hostpath.NewSharedSQ(sends)
		if err != nil {
			return wrap(what, err)
		}
		q.sends = &q.sharedSQ.SendRing
	} else {
		q.sq, err = hostpath.NewSQ(sends)
		if err != nil {
			return wrap(what, err)
		}
		q.sends = &q.sq.SendRing
	}
	if q.srq == nil {
		q.rq, err = hostpath.NewRQ(hostpath.RQConfig{
			Ring: q.rings.mem[:recvs*stride], Stride: stride, Record: q.rec.mem, Stacks: sanitized,
		})
		if err != nil {
			return wrap(what, err)
		}
	}
	if sanitized {
		q.notifySanitizers()
	}
	if e := c.early.Load(); e != nil {
		e.addQueue(q.qpn, q.receives())
	}
	c.table.Set(q.index, q.tableEntry())
	c.mu.Lock()
	c.qps[q.qpn] = weak.Make(q)
	c.mu.Unlock()
	return nil
}

// notifySanitizers reports a queue pair that was just made to the sanitizers of this process.
func (q *QP) notifySanitizers() {
	var receives *hostpath.Posts
	if q.rq != nil {
		receives = q.rq.Posts()
	}
	sanitizers.made(q.c, queueAt{number: q.qpn}, q.sends.Posts(), receives)
}

// tableEntry returns the part of the queue pair that pollers need.
func (q *QP) tableEntry() *hostpath.QP {
	l := &hostpath.QP{SQ: q.sends, RQ: q.rq, QPN: q.qpn}
	if q.srq != nil {
		l.SRQ = q.srq.srq
	}
	return l
}

func log2(n int) uint8 { return uint8(bits.Len(uint(n)) - 1) }

// release gives back what a queue pair had on this side and, unless the device is gone,
// on the device's side.
func (q *QP) release() {
	c := q.c
	if q.qpn != 0 {
		_, _ = c.call("QP", control.OpDestroyQP, &control.QPN{QPN: q.qpn}, &control.Empty{})
		c.mu.Lock()
		delete(c.qps, q.qpn)
		c.mu.Unlock()
		if q.srq != nil {
			q.cqs[1].cq.Orphan(q.qpn, q.srq.srq)
		}
		if e := c.early.Load(); e != nil {
			e.dropQueue(q.qpn)
		}
	}
	q.cqs[0].senders.Add(-1)
	q.mu.Lock()
	if q.sink != nil {
		q.cqs[0].exported.Store(false)
	}
	q.mu.Unlock()
	if q.blueFlame != 0 {
		c.giveBlueFlame(q.blueFlame)
	}
	c.table.Free(q.index)
	c.arena.release(q.rings, q.rec)
}

// reset empties the queues on this side, after the device has done so on its side.
func (q *QP) reset() {
	entry := q.tableEntry()
	for _, cq := range q.cqs {
		cq.cq.Clean(q.index, entry)
	}
	if q.sharedSQ != nil {
		q.sharedSQ.Reset()
	} else {
		q.sq.Reset()
	}
	if q.rq != nil {
		q.rq.Reset()
	}
	if e := q.c.early.Load(); e != nil {
		e.reset(q.receives())
	}
}

// receives returns the queue from which the queue pair's receives come.
func (q *QP) receives() queueAt {
	if q.srq != nil {
		return queueAt{number: q.srq.srqn, shared: true}
	}
	return queueAt{number: q.qpn}
}

// Transport returns the transport of the queue pair: RC, UC or UD.
func (q *QP) Transport() Transport { return q.transport }

// String returns, for instance, "QP 0x000abc RC".
func (q *QP) String() string { return fmt.Sprintf("QP %#06x %v", q.qpn, q.transport) }

// QPN returns the number of the queue pair, 24 bits.
func (q *QP) QPN() uint32 { return q.qpn }

// usable returns why the queue pair cannot be used, or nil.
func (q *QP) usable() error {
	if q.closed.Load() {
		return ErrClosed
	}
	return q.c.err()
}

var errNoWR = errors.New("nicless: no work request (nil)")

// PostSend posts one work request and rings the doorbell. It returns ErrFull while the
// queue has no room: poll the SendCQ to make room. If PostSend returns an error, nothing was
// posted. PostSend accepts a work request that the device cannot execute; its completion
// says why the request failed. In the error state the device executes no work requests.
//
// Only one goroutine at a time may post sends, unless the queue pair is Concurrent. On a
// Concurrent queue pair, requests start in the order in which the calls have reserved room
// in the queue.
func (q *QP) PostSend(wr *SendWR) error {
	if err := q.sendable(); err != nil {
		return err
	}
	if wr == nil {
		return errNoWR
	}
	if q.sharedSQ != nil {
		err := q.sharedSQ.Post(wr)
		q.sharedSQ.Ring()
		q.c.waker.wakeOr(q.step)
		runtime.KeepAlive(q) // this keeps the memory of the queue
		return err
	}
	if err := q.sq.Post(wr); err != nil {
		return err
	}
	q.sq.Ring()
	q.c.waker.wakeOr(q.step)
	runtime.KeepAlive(q)
	return nil
}

// PostSendList posts work requests in order and rings the doorbell once. On an error it
// returns how many requests were posted before the refused one. On a Concurrent queue pair
// the list is posted as a unit: no request of another poster comes between its requests,
// and on an error none of them is posted.
func (q *QP) PostSendList(wrs []SendWR) (int, error) {
	if err := q.sendable(); err != nil {
		return 0, err
	}
	var n int
	var err error
	if q.sharedSQ != nil {
		n, err = q.sharedSQ.PostList(wrs)
	} else {
		n, err = q.sq.PostList(wrs)
	}
	q.c.waker.wakeOr(q.step)
	runtime.KeepAlive(q)
	return n, err
}

func (q *QP) sendable() error {
	if err := q.usable(); err != nil {
		return err
	}
	switch {
	case q.state.Load() >= uint32(control.StateRTS):
		return nil
	case q.transport == UD:
		return errNotActive
	}
	return ErrNotConnected
}

// PostRecv posts one receive and rings the doorbell. It returns ErrFull while the queue has
// no room.
//
// Only one goroutine at a time may post receives.
func (q *QP) PostRecv(wr *RecvWR) error {
	if err := q.receivable(); err != nil {
		return err
	}
	if wr == nil {
		return errNoWR
	}
	if e := q.c.early.Load(); e != nil {
		return q.postRecvEarly(e, wr)
	}
	if err := q.rq.PostRecv(wr); err != nil {
		return err
	}
	q.rq.Ring()
	q.c.waker.wakeOr(q.stepReceive)
	runtime.KeepAlive(q)
	return nil
}

// PostRecvList posts receives in order and rings the doorbell once. On an error it returns
// how many receives were posted before the refused one.
func (q *QP) PostRecvList(wrs []RecvWR) (int, error) {
	if err := q.receivable(); err != nil {
		return 0, err
	}
	if e := q.c.early.Load(); e != nil {
		return postEach(wrs, func(wr *RecvWR) error { return q.postRecvEarly(e, wr) })
	}
	n, err := q.rq.PostRecvList(wrs)
	q.c.waker.wakeOr(q.stepReceive)
	runtime.KeepAlive(q)
	return n, err
}

func (q *QP) receivable() error {
	if err := q.usable(); err != nil {
		return err
	}
	if q.rq == nil {
		return errors.New("nicless: queue pair receives from an SRQ: post there")
	}
	if cq := q.cqs[1]; cq.exported.Load() {
		return fmt.Errorf("nicless: the RecvCQ %#06x of the queue pair is collapsed and was exported: receives need another", cq.cqn)
	}
	return nil
}

// SendIndex returns how many blocks have been posted to the send queue so far. A SendEnable
// with that Index lets the queue execute all of them. SendIndex wraps at 1<<32. Only the
// poster of sends may call it.
func (q *QP) SendIndex() uint32 {
	switch {
	case q.sharedSQ != nil:
		return q.sharedSQ.Index()
	case q.sq != nil:
		return q.sq.Index()
	}
	return 0
}

// Close destroys the queue pair. Work in its queues is dropped without a completion, and
// completions that were not polled yet are not delivered. Requests of its peer fail with
// transport errors. Do not post to the queue pair during Close. A second Close does nothing.
func (q *QP) Close() error {
	if q == nil || q.pd == nil {
		return errZero
	}
	return closing(q.pd.ctx, &q.closed, func() error {
		q.changes.Lock() // a Modify that was abandoned (see Call) may be under way
		defer q.changes.Unlock()
		q.release()
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.sink != nil {
			return q.sink.Close()
		}
		return nil
	})
}

// A UAR page has four doorbell registers. Any number of queues share the first two, which
// the method register hands out. Each of the other two is for BlueFlame writes of one queue.
const (
	blueFlamesPerPage = 2
	firstBlueFlame    = doorbell.BFRegs - blueFlamesPerPage
)

// takeBlueFlame takes a free BlueFlame register and returns its index plus one.
func (c *client) takeBlueFlame() (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := min(blueFlamesPerPage*int(c.limits.UARPages), 64)
	i := bits.TrailingZeros64(^c.blueFlames)
	if i >= most {
		return 0, fmt.Errorf("BlueFlame: all %d registers of the context are taken by other queue pairs", most)
	}
	c.blueFlames |= 1 << i
	return i + 1, nil
}

// giveBlueFlame frees the register for which takeBlueFlame returned n.
func (c *client) giveBlueFlame(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blueFlames &^= 1 << (n - 1)
}

// blueFlame returns, for BlueFlame register i: its page, its number in control.QP, and
// its bytes.
func (c *client) blueFlame(i int) (page uint16, number uint8, register []byte) {
	page, at := c.ownRegister(i)
	return page, uint8(1 + firstBlueFlame + i%blueFlamesPerPage), c.registers[at : at+doorbell.BFRegSize]
}

// ownRegister returns the page of BlueFlame register i, and its offset in the UAR pages.
func (c *client) ownRegister(i int) (page uint16, at uint64) {
	page = uint16(i / blueFlamesPerPage)
	r := firstBlueFlame + i%blueFlamesPerPage
	return page, uint64(page)*doorbell.UARPageSize + doorbell.BFOffset + uint64(r)*doorbell.BFRegSize
}

// The methods in this file return the shared memory of a queue, for dumps and
// demonstrations, or nil after Close. The caller must not write to the bytes. They are
// valid until the queue is closed. While work is under way the bytes change, and a reader
// may see some bytes from before a change and some from after it.

// SendRing returns the ring of the send queue, which consists of blocks of 64 bytes.
func (q *QP) SendRing() []byte {
	if !q.open() {
		return nil
	}
	return q.sends.Memory()
}

// RecvRing returns the ring of the receive queue, which consists of entries of equal size.
// It returns nil if receives come from an SRQ.
func (q *QP) RecvRing() []byte {
	if q.rq == nil || !q.open() {
		return nil
	}
	return q.rq.Memory()
}

// Record returns the doorbell record, 8 bytes: the count of receives, then the count of
// send blocks.
func (q *QP) Record() []byte {
	if !q.open() {
		return nil
	}
	return q.rec.mem[:8:8]
}

// open reports whether the queue pair still owns its memory.
func (q *QP) open() bool { return q.c != nil && !q.closed.Load() && !q.c.closed.Load() }

// Register returns the two halves of the UAR register of the send queue, read as big-endian
// numbers, or zeros after Close. Doorbells are written to the two halves alternately.
// Queues can share a register.
func (q *QP) Register() (halves [2]uint64) {
	if !q.open() {
		return halves
	}
	halves, _ = q.sends.Register()
	return halves
}

// Ring returns the ring of the completion queue, which consists of entries of 64 or 128
// bytes.
func (q *CQ) Ring() []byte {
	if q.open() != nil {
		return nil
	}
	return q.cq.Memory()
}

// Record returns the doorbell record of the completion queue, 8 bytes: the consumer index,
// then the arm word.
func (q *CQ) Record() []byte {
	if q.open() != nil {
		return nil
	}
	return q.rec.mem[:8:8]
}

// allStacks reports whether all queue pairs have QPConfig.Stacks. It is read from the environment, so that
// nicless run --stacks works with programs that know nothing of it.
var allStacks = sync.OnceValue(func() bool { return os.Getenv("NICLESS_STACKS") == "1" })
