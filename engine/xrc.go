//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// Extended reliable connections (XRC): domains, their shared receive queues (XSRQs), and their
// queue pairs that receive (targets). See xrc_respond.go for what is done with a request.
//
// All clients of a domain are in one shard. So a shard that holds the lock for a target also
// holds the lock for the XSRQs that the target's requests can name.

// An xrcd is an XRC domain. It ends when no client has it open.
type xrcd struct {
	num     uint32
	members map[*client]*membership
}

// A membership is what one client has of a domain.
type membership struct {
	opened int // how often the client has opened the domain and not closed it
	used   int // its XSRQs and targets in the domain
}

func (c *caller) openXRCD(_ *control.Empty, _ requestMemory, _ *control.Reply) (control.Message, error) {
	c.e.lastXRCD++
	d := &xrcd{num: c.e.lastXRCD, members: make(map[*client]*membership)}
	if err := c.joinXRCD(d); err != nil {
		return nil, err
	}
	c.e.xrcds[d.num] = d
	return &control.XRCD{XRCDN: d.num}, nil
}

// JoinXRCD opens a domain that another client has opened.
func (c *caller) JoinXRCD(n uint32) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.do(noWork, "join_xrcd", func() {
		d := c.e.xrcds[n]
		if d == nil {
			err = control.Errorf(control.CodeNotFound, "XRC domain %d: there is none with that number", n)
			return
		}
		err = c.joinXRCD(d)
	})
	return err
}

func (c *caller) joinXRCD(d *xrcd) error {
	if _, err := c.take("XRC domains", len(c.xrcds), c.e.cfg.limits.PDs, pdCost); err != nil {
		return err
	}
	if d.members[c.client] == nil {
		for other := range d.members {
			if c.linked > 0 {
				c.r.follow(other, c.shard) // c has to stay where the ports are
			} else {
				c.r.follow(c.client, other.shard)
			}
			break
		}
		d.members[c.client] = new(membership)
		c.xrcds[d.num] = d
	}
	d.members[c.client].opened++
	return nil
}

// follow moves c to a shard, and with it all clients that it shares a domain with.
func (e *runner) follow(c *client, to *shard) {
	if c.shard == to {
		return
	}
	e.move(c, to)
	for _, d := range c.xrcds {
		for other := range d.members {
			e.follow(other, to)
		}
	}
}

// shares reports whether c shares a domain with another client.
func (c *client) shares() bool {
	for _, d := range c.xrcds {
		if len(d.members) > 1 {
			return true
		}
	}
	return false
}

func (c *caller) closeXRCD(m *control.XRCD, _ requestMemory, _ *control.Reply) (control.Message, error) {
	d := c.xrcds[m.XRCDN]
	if d == nil {
		return nil, notFound("XRC domain", m.XRCDN)
	}
	if mine := d.members[c.client]; mine.opened == 1 && mine.used > 0 {
		return nil, busy("XRC domain", m.XRCDN, mine.used, "queue", "queues")
	}
	c.leaveXRCD(d)
	return &control.Empty{}, nil
}

func (c *caller) leaveXRCD(d *xrcd) {
	c.refund(pdCost)
	if d.members[c.client].opened--; d.members[c.client].opened > 0 {
		return
	}
	delete(d.members, c.client)
	delete(c.xrcds, d.num)
	if len(d.members) == 0 {
		delete(c.e.xrcds, d.num)
	}
}

func (c *caller) createXSRQ(m *control.XSRQ, _ requestMemory, _ *control.Reply) (control.Message, error) {
	d, q := c.xrcds[m.XRCDN], c.cqs[m.CQN]
	switch {
	case d == nil:
		return nil, notFound("XRC domain", m.XRCDN)
	case q == nil:
		return nil, notFound("CQ", m.CQN)
	case q.dead:
		return nil, control.Errorf(control.CodeState, "SRQ: CQ %#06x has overrun; nothing is written to it any more", q.num)
	case m.UserIndex > 0xffffff:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: user index %#x; 24 bits are possible", m.UserIndex)
	}
	s, err := c.newSRQ(&m.SRQ)
	if err != nil {
		return nil, err
	}
	s.xrcd, s.cq, s.uidx = d, q, m.UserIndex
	q.users++
	d.members[c.client].used++
	return &control.SRQN{SRQN: s.num}, nil
}

// leaveDomain is called when s is removed.
func (s *srq) leaveDomain() {
	if s.xrcd != nil {
		s.gone = true
		s.cq.users--
		s.xrcd.members[s.client].used--
	}
}

// createTarget makes a queue pair that has only what the device needs of every queue pair:
// empty queues in the device's own memory. Its PD is one that no key has, and its CQs get no
// completions.
func (c *caller) createTarget(m *control.XRCD, _ requestMemory, _ *control.Reply) (control.Message, error) {
	d := c.xrcds[m.XRCDN]
	if d == nil {
		return nil, notFound("XRC domain", m.XRCDN)
	}
	if _, err := c.take("queue pairs", len(c.qps), c.e.cfg.limits.QPs, qpCost); err != nil {
		return nil, err
	}
	rec, none := make([]byte, 8), new(cq)
	q := &qp{client: c.client, pd: new(pd), transport: control.QPTypeXRC, xrcd: d, xrc: new(extended),
		sq: sendQueue{blocks: oneBlock(), cq: none, record: shm.BE32At(rec, 4)},
		rq: receiveQueue{cq: none, record: shm.BE32At(rec, 0)},
	}
	c.addQP(q)
	d.members[c.client].used++
	return &control.QPN{QPN: q.num}, nil
}

// oneBlock is the ring of a queue pair that sends nothing.
func oneBlock() shm.Ring { return shm.RingOf(new(shm.Block)[:]) }

// openTarget lets c use a target of another client. Each client that has a target is charged
// for it, because each may be the last one.
func (c *caller) openTarget(m *control.Target, _ requestMemory, _ *control.Reply) (control.Message, error) {
	d, q := c.xrcds[m.XRCDN], c.e.qps[m.QPN]
	switch {
	case d == nil:
		return nil, notFound("XRC domain", m.XRCDN)
	case q == nil || q.xrcd != d:
		return nil, control.Errorf(control.CodeNotFound, "QP %#06x: XRC domain %d has no target with that number", m.QPN, m.XRCDN)
	case c.qps[m.QPN] != nil:
		return nil, control.Errorf(control.CodeBusy, "QP %#06x: this client has it already", m.QPN)
	}
	if _, err := c.take("queue pairs", len(c.qps), c.e.cfg.limits.QPs, qpCost); err != nil {
		return nil, err
	}
	c.qps[q.num] = q
	q.xrc.others = append(q.xrc.others, c.client)
	d.members[c.client].used++
	return &control.Empty{}, nil
}

// leaveTarget ends c's use of a queue pair. It returns false if no other client uses the queue
// pair, which then has to be removed. If c is the client to which the queue pair belongs, the
// queue pair belongs to one of the others from now on.
func (sh *shard) leaveTarget(q *qp, c *client) bool {
	if q.xrcd == nil {
		return false
	}
	q.xrcd.members[c].used--
	if len(q.xrc.others) == 0 {
		return false
	}
	c.refund(qpCost)
	if i := slices.Index(q.xrc.others, c); i >= 0 {
		q.xrc.others = slices.Delete(q.xrc.others, i, i+1)
		return true
	}
	running := q.client.shard.isRunning(q)
	sh.removeRunning(q)
	if q.wire != nil {
		q.client.linked--
		q.xrc.others[0].linked++
		c.refund(wireCost)
		_ = sh.ledger.Incur(q.xrc.others[0].uid, quota.Charge{quota.Memory: wireCost}) // memory that is in use already
	}
	q.client, q.xrc.others = q.xrc.others[0], q.xrc.others[1:]
	sh.watchdog.owners.put(uint64(q.num), q.client.name)
	if running {
		sh.addRunning(q)
		sh.markWarm(q)
	}
	return true
}

// event sends an event about q to all clients that have q.
func (q *qp) event(kind control.EventKind) {
	q.client.event(kind, q.num)
	if q.xrc == nil {
		return
	}
	for _, c := range q.xrc.others {
		c.event(kind, q.num)
	}
}

// addQP gives a new queue pair its number, and adds it to its client and to the device.
func (c *caller) addQP(q *qp) {
	q.num = numbers.Next(c.e.numbers.qp, c.e.qps)
	c.e.serial++
	q.serial = c.e.serial
	q.attr.QPN = q.num
	c.e.watchdog.owners.put(uint64(q.num), c.name)
	c.e.qps[q.num], c.qps[q.num] = q, q
}
