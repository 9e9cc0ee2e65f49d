//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A qp is the device's side of a queue pair. Thousands of queue pairs may be idle, so its size has a
// bound: memory-qp in docs/figures.txt. State that only some kinds of queue pair have is behind
// pointers, which are set when the queue pair is made.
type qp struct {
	num       uint32
	uidx      uint32
	client    *client
	pd        *pd
	attr      control.QPAttr // state and all attributes
	signed    bool           // WQEs carry a signature
	fastPath  bool           // WQEs may take the fast path
	transport uint8          // control.QPType*
	dead      bool           // destroyed; pointers to it may remain
	failed    bool           // a WQE has failed since RST: error completions of later WQEs with ce 1 are suppressed
	faulted   cqe.Syndrome   // syndrome of the WQE at the head, if its work met a fault of memory
	rnrLeft   uint8          // see rnrIndex
	postponed bool           // the visit is postponed to the end of the step
	fastOps   uint64         // bit n: opcode n may be executed, and may take the fast path
	allowed   uint64         // bit n: opcode n may be executed

	sched qpSchedule
	life  uint32 // grows whenever q ends transfers of its peers
	sq    sendQueue
	job   *job // a transfer that is being done slice by slice, or nil
	rq    receiveQueue

	serial uint64 // never given to another queue pair; the first is 1
	conn   connection
	wire   *wire // if the peer is on another device: how q reaches it
	stall  stall

	// While the WQE at block rnrIndex-1 does not wait, it has rnrLeft RNR retries left. It has
	// stopped waiting because a receive was posted, but another queue pair may take this receive
	// first. Then it waits again, with the retries that it had left.
	rnrIndex uint64

	suspicion suspicion
	regions   [3]*region // those that hold the send queue, the receive queue and the records

	xrcd      *xrcd      // if q is a target: its XRC domain
	xrc       *extended  // on XRC
	dc        *dynamic   // if q is a DCI or a DCT
	datagrams *datagrams // on UD
}

// An extended is what a queue pair has for XRC.
type extended struct {
	others []*client // if it is a target: the clients that have it, besides client
	srq    *srq      // if it sends: the XSRQ that the last request has named; looked up again if gone
}

// A sendQueue is the send queue of a queue pair. Counts have 64 bits here and are cut to 16
// bits where they are compared with a record or a WQE.
type sendQueue struct {
	blocks    shm.Ring
	mask      uint64 // number of blocks - 1
	done      uint64 // blocks executed
	enabled   uint64 // if managed: the queue may execute blocks until the count done reaches this count
	record    *shm.BE32
	cq        *cq
	registers *shm.Region // the bank that holds the UAR page of the queue
	blueFlame *blueFlame  // the queue's own BlueFlame register, or nil
	ahead     uint16      // blocks executed from that register that the record has not announced yet
	inline    uint8       // results of READs and atomics of at most this many bytes are put into the CQE
	managed   bool        // executes only what a SEND_EN has enabled
}

// A receiveQueue is the receive queue of a queue pair.
type receiveQueue struct {
	ring   []byte
	mask   uint64 // entries - 1
	done   uint64 // entries consumed
	record *shm.BE32
	cq     *cq
	srq    *srq  // the shared receive queue in place of ring, or nil
	stride uint8 // log2 of the bytes of one entry
	inline uint8 // messages of at most this many bytes are put into the CQE
}

// A connection names the peer of a queue pair.
type connection struct {
	path  *nic.Path // how to reach the peer on another device; nil: it is on this one
	set   *setPeer  // what the client has set by set_peer; nil: nothing
	bound uint64    // serial of the peer that the connection was made with; 0: none
	peer  *qp       // found at first use; looked up again if dead
}

// A qpSchedule is what the scheduler knows of a queue pair; see active.go.
type qpSchedule struct {
	at         int32  // index in shard.running
	watch      int32  // index in client.sched.watches
	warm       int32  // index in client.sched.warm, plus 1; 0: cold
	idleVisits uint32 // idle visits since the last visit that found work
	with       *shard // the other shard whose lock the postponed visit needs
}

func (c *caller) createQP(m *control.QP, _ requestMemory, _ *control.Reply) (control.Message, error) {
	switch {
	case int(m.Type) >= len(transports) || transports[m.Type].opcodes == 0:
		return nil, control.Errorf(control.CodeUnsupported, "QP: transport type %d; this device has RC (0), UC (1), UD (2), XRC (3) and DCI (5)", m.Type)
	case m.LogSQ > maxLogSQ:
		return nil, control.Errorf(control.CodeInvalid, "QP: send queue of 2^%d blocks; at most 2^%d are possible", m.LogSQ, maxLogSQ)
	case m.LogRQ > maxLogRQ:
		return nil, control.Errorf(control.CodeInvalid, "QP: receive queue of 2^%d entries; at most 2^%d are possible", m.LogRQ, maxLogRQ)
	case m.NoReceive > 1 || m.SignatureOn > 1 || m.Managed > 1:
		return nil, control.Errorf(control.CodeInvalid, "QP: no_receive %d, signature_on %d, managed %d; each is 0 or 1", m.NoReceive, m.SignatureOn, m.Managed)
	case sendsOnly(m.Type) && (m.NoReceive == 0 || m.SRQN != 0):
		return nil, control.Errorf(control.CodeInvalid, "QP: %s with no_receive %d, SRQ %#06x; no_receive must be 1, without an SRQ", transports[m.Type].name, m.NoReceive, m.SRQN)
	case m.Type == control.QPTypeDCI && m.Streams > control.MaxLogErrored:
		return nil, control.Errorf(control.CodeInvalid, "QP: 2^%d streams may fail; at most 2^%d are possible", m.Streams, control.MaxLogErrored)
	case m.SRQN != 0 && m.NoReceive == 0:
		return nil, control.Errorf(control.CodeInvalid, "QP: SRQ %#06x and a receive queue; no_receive must be 1 with an SRQ", m.SRQN)
	case m.NoReceive == 0 && (m.LogRQStride < 4+m.SignatureOn || m.LogRQStride > maxLogRQStride):
		return nil, control.Errorf(control.CodeInvalid, "QP: receive entries of 2^%d bytes; 2^4 to 2^%d are possible", m.LogRQStride, maxLogRQStride)
	case m.Scatter&^(control.ScatterRequester|control.ScatterResponder) != 0:
		return nil, control.Errorf(control.CodeInvalid, "QP: unknown flags %#x of scatter", m.Scatter)
	case m.UserIndex > 0xffffff:
		return nil, control.Errorf(control.CodeInvalid, "QP: user index %#x; 24 bits are possible", m.UserIndex)
	case m.BlueFlame > doorbell.BFRegs:
		return nil, control.Errorf(control.CodeInvalid, "QP: BlueFlame register %d; 1 to %d are possible, 0 for none", m.BlueFlame, doorbell.BFRegs)
	case m.BlueFlame != 0 && (m.Type >= control.QPTypeUD || m.SignatureOn == 1 || m.Managed == 1):
		return nil, control.Errorf(control.CodeInvalid, "QP: BlueFlame register %d with type %d, signature_on %d, managed %d; RC or UC without either are possible",
			m.BlueFlame, m.Type, m.SignatureOn, m.Managed)
	case m.SQ%64 != 0 || m.RQ%64 != 0 || m.DBRec%8 != 0:
		return nil, control.Errorf(control.CodeInvalid, "QP: send queue at %#x, receive queue at %#x, record at %#x; multiples of 64, 64 and 8 are needed", m.SQ, m.RQ, m.DBRec)
	}
	registers, page, err := c.uarPage("QP", m.UAR)
	if err != nil {
		return nil, err
	}
	p, ok := c.pds[m.PDN]
	if !ok {
		return nil, notFound("PD", m.PDN)
	}
	sendCQ, recvCQ := c.cqs[m.SendCQN], c.cqs[m.RecvCQN]
	if sendCQ == nil {
		return nil, notFound("send CQ", m.SendCQN)
	}
	if sendsOnly(m.Type) {
		recvCQ = sendCQ // it has no receives
	}
	if recvCQ == nil {
		return nil, notFound("receive CQ", m.RecvCQN)
	}
	if sendCQ.dead || recvCQ.dead {
		return nil, control.Errorf(control.CodeState, "QP: CQ %#06x or %#06x has overrun; nothing is written to it any more", sendCQ.num, recvCQ.num)
	}
	q := &qp{
		uidx: m.UserIndex, client: c.client, pd: p, signed: m.SignatureOn == 1,
		transport: m.Type, allowed: transports[m.Type].opcodes,
		sq: sendQueue{mask: 1<<m.LogSQ - 1, managed: m.Managed == 1, cq: sendCQ, registers: registers},
		rq: receiveQueue{mask: 1<<m.LogRQ - 1, stride: m.LogRQStride, cq: recvCQ},
	}
	switch m.Type {
	case control.QPTypeXRC:
		q.xrc = new(extended)
	case control.QPTypeDCI:
		q.dc = &dynamic{tolerance: 1 << m.Streams}
	case control.QPTypeUD:
		q.datagrams = new(datagrams)
	}
	q.fastPath = !q.signed && q.transport < control.QPTypeUD
	q.carryInline(m.Scatter)
	if m.BlueFlame != 0 {
		q.attachBlueFlame(page, m.BlueFlame)
	}
	var sq, rec []byte
	if q.regions[0], sq, err = c.at("send queue", m.SQ, wqe.BlockSize<<m.LogSQ); err != nil {
		return nil, err
	}
	if m.NoReceive == 0 {
		if q.regions[1], q.rq.ring, err = c.at("receive queue", m.RQ, 1<<(m.LogRQ+m.LogRQStride)); err != nil {
			return nil, err
		}
	}
	if q.regions[2], rec, err = c.at("QP doorbell record", m.DBRec, 8); err != nil {
		return nil, err
	}
	if m.SRQN != 0 {
		if q.rq.srq = c.srqs[m.SRQN]; q.rq.srq == nil {
			return nil, notFound("SRQ", m.SRQN)
		}
		if q.rq.srq.xrcd != nil {
			return nil, control.Errorf(control.CodeInvalid, "QP: SRQ %#06x is for targets of an XRC domain", m.SRQN)
		}
	}
	q.rq.record, q.sq.record = shm.BE32At(rec, 0), shm.BE32At(rec, 4)
	if _, err := c.take("queue pairs", len(c.qps), c.e.cfg.limits.QPs, qpCost); err != nil {
		return nil, err
	}
	c.addQP(q)
	countUser(1, q.regions[:]...)
	p.users++
	q.countCQs(1)
	if q.rq.srq != nil {
		q.rq.srq.users++
	}
	q.sq.blocks = shm.RingOf(sq)
	for i, b := range [...][]byte{sq, q.rq.ring, rec} {
		if b != nil {
			c.prefault(q.regions[i], b)
		}
	}
	return &control.QPN{QPN: q.num}, nil
}

func (c *caller) destroyQP(m *control.QPN, _ requestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.qps[m.QPN]
	if !ok {
		return nil, notFound("QP", m.QPN)
	}
	delete(c.qps, m.QPN)
	c.leaveQP(q)
	return &control.Empty{}, nil
}

// leaveQP ends c's use of a QP. It removes the QP unless that is a target of other clients too.
func (c *caller) leaveQP(q *qp) {
	if !c.shard.leaveTarget(q, c.client) {
		c.removeQP(q)
	}
}

// removeQP removes a QP from the device. Transfers of its peers end as if the QP had
// stopped answering.
func (c *caller) removeQP(q *qp) {
	sh := c.loop()
	delete(sh.qps, q.num)
	sh.watchdog.owners.drop(uint64(q.num))
	sh.setState(q, control.StateRST)
	sh.leaveAll(q)
	sh.trim()
	q.client.refund(qpCost)
	q.client.forgetPeer(q)
	q.dead = true
	q.pd.users--
	q.countCQs(-1)
	if q.rq.srq != nil {
		q.rq.srq.users--
	}
	countUser(-1, q.regions[:]...)
}

// countCQs adds n to the users of q's completion queues. If one completion queue serves
// both sides of q, it counts q once.
func (q *qp) countCQs(n int) {
	q.sq.cq.users += n
	if q.rq.cq != q.sq.cq {
		q.rq.cq.users += n
	}
}

// listens reports whether q takes messages.
func (q *qp) listens() bool {
	switch q.attr.State {
	case control.StateRTR, control.StateRTS, control.StateSQD, control.StateSQE:
		return true
	}
	return false
}

// bind is called when q goes to RTR. It connects q with the queue pair that now has the
// number attr.DestQPN. Numbers are given out again, so a queue pair that gets the number later
// is not the peer. If no queue pair has the number now, q has no peer.
func (c *caller) bind(q *qp) {
	sh := c.loop()
	p := sh.qps[q.attr.DestQPN]
	if p == nil {
		sh.explainQueue(q, codes.PeerMissing, "%s", sh.whyNoPeer(q))
		return
	}
	q.conn.bound = p.serial
	if sh.several {
		c.r.bringTogether(q, p)
	}
}

// reliable reports whether q's transport has acknowledgements.
func (q *qp) reliable() bool {
	return q.transport == control.QPTypeRC || q.transport >= control.QPTypeXRC
}

// hasPeer reports whether q is connected with one peer.
func (q *qp) hasPeer() bool {
	switch q.transport {
	case control.QPTypeUD, control.QPTypeDCI, control.QPTypeDCT:
		return false
	}
	return true
}

// sendsOnly reports whether queue pairs of this type have no receives.
func sendsOnly(transport uint8) bool {
	return transport == control.QPTypeXRC || transport == control.QPTypeDCI
}

// boundPeer returns the queue pair that bind has connected q with. It returns nil if there
// was none or if that queue pair has ended.
func (e *device) boundPeer(q *qp) *qp {
	if p := e.qps[q.attr.DestQPN]; p != nil && p.serial == q.conn.bound {
		return p
	}
	return nil
}

// connected reports whether q may send to p, which is nil or q's boundPeer. q may send if p
// takes messages and is itself connected with q.
func (q *qp) connected(p *qp) bool {
	return p != nil && !p.dead && p.transport == q.transport && p.listens() && p.conn.bound == q.serial
}
