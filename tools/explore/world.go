//go:build linux && (amd64 || arm64)

package explore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/wqe"
)

// A world is a device with its clients, and what the checker knows of them.
type world struct {
	plan     *Plan
	e        *engine.Engine
	d        nic.Device
	stepper  nic.Stepper
	now      time.Duration // virtual time since the begin
	sleeps   uint64
	clients  []*client
	ends     []*end
	operator *client // sets the rules of faults, and watches
	tape     tape

	rules  []fault.Rule // all that the plan has set so far
	keys   int          // that were made
	late   bool         // a rule says that bytes become visible in another order
	polled int          // completions

	checked int // comparisons of bytes by the checks

	fault *verdict.Fault // the first one; nil: none
	seen  Counts
}

// Counts say how much a run has done.
type Counts struct {
	Work        int `json:"work"`        // work requests posted
	Completions int `json:"completions"` // seen
	Errors      int `json:"errors"`      // of these, with an error, but flushed ones
	Flushed     int `json:"flushed"`     // of these, because the queue pair was in error
	Events      int `json:"events"`      // of the record
}

// began is the device clock when a run begins. Any number will do.
const began = 1 << 40

// open makes the device and what is on it.
func (w *world) open() error {
	cfg := engine.Config{Burst: w.plan.Burst, Slice: w.plan.Slice}
	if w.plan.Plant != nil {
		cfg.Faults = w.plan.Plant.Rules
	}
	e, err := engine.New(cfg)
	if err != nil {
		return err
	}
	w.e, w.d = e, nic.Of(e)
	w.stepper = w.d.(nic.Stepper)
	w.hold()
	if err := w.make(); err != nil {
		return errors.Join(err, w.close())
	}
	return nil
}

// make makes the clients and their queue pairs.
func (w *world) make() (err error) {
	w.operator, err = w.attach("operator", 0)
	if err != nil {
		return err
	}
	if w.plan.Watch {
		if err := w.tape.watch(w.operator); err != nil {
			return err
		}
	}
	for i := range w.plan.Clients {
		c, err := w.attach(fmt.Sprintf("client %d", i), w.clientSize(i))
		if err != nil {
			return err
		}
		w.clients = append(w.clients, c)
	}
	for i := range w.plan.Links {
		l := &w.plan.Links[i]
		for _, c := range l.Ends {
			q, err := w.newEnd(w.clients[c], l, len(w.ends))
			if err != nil {
				return err
			}
			w.ends = append(w.ends, q)
		}
		a, b := w.ends[2*i], w.ends[2*i+1]
		a.peer, b.peer = b, a
		if err := w.connect(a, b); err != nil {
			return err
		}
	}
	return nil
}

// hold sets the device clock.
func (w *world) hold() { w.stepper.Hold(began + clock.Cycles(w.now)) }

// A client is a client of the device.
type client struct {
	nic.Client
	number int
	base   uint64 // address of its memory
	mem    []byte
	used   int
	pd     uint32
	shared *receives // nil until a queue pair needs it
	gone   bool
	last   []byte // its memory when it was closed
}

func (w *world) attach(name string, size int) (*client, error) {
	nc, err := w.d.AttachLocal(name, nil)
	if err != nil {
		return nil, err
	}
	c := &client{Client: nc, number: len(w.clients), base: uint64(len(w.clients)+1) << 32}
	if size == 0 {
		return c, nil
	}
	mem, err := shm.Heap(size)
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	c.mem = mem.Bytes()
	if _, err := nc.AddRegion(c.base, mem); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	var pd control.PD
	err = c.call(control.OpAllocPD, &control.Empty{}, &pd)
	c.pd = pd.PDN
	return c, err
}

// clientSize returns how much memory a client needs.
func (w *world) clientSize(client int) int {
	n := receivesSize
	for _, l := range w.plan.Links {
		for _, c := range l.Ends {
			if c == client {
				n += endSize
			}
		}
	}
	return n
}

// take returns memory of the client, from a multiple of 128 on, and its address.
func (c *client) take(n int) (mem []byte, addr uint64) {
	mem, addr = c.mem[c.used:c.used+n:c.used+n], c.base+uint64(c.used)
	c.used += (n + 127) &^ 127
	return mem, addr
}

// call makes a request.
func (c *client) call(op control.Op, req, ans control.Message) error {
	m, _, err := c.Call(op, control.Append(nil, op, 0, 0, req)[control.HeaderSize:])
	if err != nil {
		return err
	}
	return control.Parse(op, control.Append(nil, op, control.FlagAnswer, 0, m)[control.HeaderSize:], ans)
}

// register makes a key for memory of the client.
func (w *world) register(c *client, addr uint64, n int) (uint32, error) {
	var k control.Key
	w.d.Choose(nic.Key, uint32(firstKey+w.keys)<<8|0x51)
	w.keys++
	err := c.call(control.OpRegMR, &control.MR{PDN: c.pd,
		Access: control.AccessAll &^ control.AccessZeroBased, Addr: addr, IOVA: addr, Length: uint64(n)}, &k)
	return k.Key, err
}

// Numbers of objects are chosen, so that each run of a plan has the same.
const (
	firstQP  = 0x1000
	firstCQ  = 0x2000
	firstSRQ = 0x3000
	firstKey = 0x4000
)

// An area is memory that the device writes, and what must be in it.
type area struct {
	mem, shadow []byte
	addr        uint64
	key         uint32
}

func (c *client) newArea(n int) area {
	mem, addr := c.take(n)
	for i := range mem {
		mem[i] = byte(i*5 + i>>8 + 0x60)
	}
	return area{mem: mem, shadow: append([]byte(nil), mem...), addr: addr}
}

// Places within the memory of an end. Between them are bytes that nothing may change.
const (
	guard    = 64
	localAt  = guard                                  // messages that it sends, and what it reads
	targetAt = localAt + mostWork*messageSize + guard // its peer writes here
	wordsAt  = targetAt + targetSize + guard          // words for atomics of its peer
	readAt   = wordsAt + wordCount*8 + guard          // its peer reads here, and nobody writes
	dataSize = readAt + readSize + guard
)

// Sizes of queues, in bytes.
const (
	slots        = 1 << logReceives                  // receives of a receive queue
	slotsSize    = guard + slots*(messageSize+guard) // their memory
	logStride    = 5                                 // a receive has one data segment, and its end or a link
	cqSize       = cqe.Size << logCQ
	ringSize     = wqe.BlockSize << logBlocks
	aligned      = 1024 // more than alignment takes
	receivesSize = slotsSize + slots<<logStride + aligned
	endSize      = dataSize + receivesSize + cqSize + ringSize + aligned
)

// newEnd makes a queue pair.
func (w *world) newEnd(c *client, l *Link, number int) (*end, error) {
	q := &end{client: c, link: l, number: number, cq: queue{log: logCQ}, life: &life{}}
	q.area = c.newArea(dataSize)
	clear(q.mem[wordsAt : wordsAt+wordCount*8])
	clear(q.shadow[wordsAt : wordsAt+wordCount*8])
	var err error
	q.key, err = w.register(c, q.addr, dataSize)
	if err != nil {
		return nil, err
	}
	q.receives, err = w.receivesOf(q)
	if err != nil {
		return nil, err
	}
	m := control.CQ{LogSize: logCQ, LogCQE: 6}
	q.cq.ring, m.Buf = c.take(cqSize)
	for i := range q.cq.ring {
		q.cq.ring[i] = 0xff // invalid
	}
	q.cq.record, m.DBRec = c.take(8)
	var cq control.CQN
	w.d.Choose(nic.CQ, uint32(firstCQ+number))
	if err := c.call(control.OpCreateCQ, &m, &cq); err != nil {
		return nil, err
	}
	qp := control.QP{PDN: c.pd, SendCQN: cq.CQN, RecvCQN: cq.CQN, UserIndex: q.userIndex(), LogSQ: logBlocks,
		Type: transports[l.Transport].qp}
	q.ring, qp.SQ = c.take(ringSize)
	q.record, qp.DBRec = c.take(8)
	if q.receives.shared {
		qp.NoReceive, qp.SRQN = 1, q.receives.number
	} else {
		q.receives.record = q.record
		qp.RQ, qp.LogRQ, qp.LogRQStride = q.receives.ringAt, logReceives, logStride
	}
	if l.Register {
		page, mem, err := c.AddRegisters(1)
		if err == nil {
			err = mem.Seal() // otherwise the device refuses queues that name it
		}
		if err != nil {
			return nil, err
		}
		c.ClosePageFiles()
		q.register = mem.Bytes()[doorbell.BFOffset:][:doorbell.BFRegSize]
		qp.UAR, qp.BlueFlame = uint16(page), 1
	}
	var qpn control.QPN
	w.d.Choose(nic.QP, uint32(firstQP+number))
	err = c.call(control.OpCreateQP, &qp, &qpn)
	q.qpn = qpn.QPN
	return q, err
}

// receivesOf makes the receive queue of an end, or returns the shared one of its client.
func (w *world) receivesOf(q *end) (_ *receives, err error) {
	c := q.client
	if q.link.Shared && c.shared != nil {
		return c.shared, nil
	}
	r := &receives{area: c.newArea(slotsSize), shared: q.link.Shared, list: map[uint16]int{},
		least: messageSize}
	r.ring, r.ringAt = c.take(slots << logStride)
	r.key, err = w.register(c, r.addr, slotsSize)
	if err != nil || !r.shared {
		return r, err
	}
	c.shared = r
	m := control.SRQ{PDN: c.pd, Ring: r.ringAt, LogSize: logReceives, LogStride: logStride}
	r.record, m.DBRec = c.take(8)
	var ans control.SRQN
	w.d.Choose(nic.SRQ, uint32(firstSRQ+c.number))
	err = c.call(control.OpCreateSRQ, &m, &ans)
	r.number = ans.SRQN
	return r, err
}

// put32 writes a count into a doorbell record.
func put32(b []byte, n uint32) { binary.BigEndian.PutUint32(b, n) }

// close ends everything, and returns what the device still holds.
func (w *world) close() (err error) {
	for _, c := range append(w.clients, w.operator) {
		if c != nil && !c.gone {
			c.gone = true
			err = errors.Join(err, c.Close())
		}
	}
	return errors.Join(err, w.tape.close())
}
