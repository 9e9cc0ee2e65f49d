//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/custody"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

func createQP(c *Client, m *control.QP, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	switch {
	case int(m.Type) >= len(states.Transports) || states.Transports[m.Type].Opcodes == 0:
		return nil, control.Errorf(control.CodeUnsupported, "QP: transport type %d; this device has RC (0), UC (1), UD (2), XRC (3) and DCI (5)", m.Type)
	case m.LogSQ > object.MaxLogSQ:
		return nil, control.Errorf(control.CodeInvalid, "QP: send queue of 2^%d blocks; at most 2^%d are possible", m.LogSQ, object.MaxLogSQ)
	case m.LogRQ > object.MaxLogRQ:
		return nil, control.Errorf(control.CodeInvalid, "QP: receive queue of 2^%d entries; at most 2^%d are possible", m.LogRQ, object.MaxLogRQ)
	case max(m.NoReceive, m.SignatureOn, m.Managed, m.NoSend) > 1:
		return nil, control.Errorf(control.CodeInvalid, "QP: no_receive %d, signature_on %d, managed %d, no send queue %d; each is 0 or 1", m.NoReceive, m.SignatureOn, m.Managed, m.NoSend)
	case object.SendsOnly(m.Type) && (m.NoReceive == 0 || m.SRQN != 0):
		return nil, control.Errorf(control.CodeInvalid, "QP: %s with no_receive %d, SRQ %#06x; no_receive must be 1, without an SRQ", states.Transports[m.Type].Name, m.NoReceive, m.SRQN)
	case m.Type == control.QPTypeDCI && m.Streams > control.MaxLogErrored:
		return nil, control.Errorf(control.CodeInvalid, "QP: 2^%d streams may fail; at most 2^%d are possible", m.Streams, control.MaxLogErrored)
	case m.SRQN != 0 && m.NoReceive == 0:
		return nil, control.Errorf(control.CodeInvalid, "QP: SRQ %#06x and a receive queue; no_receive must be 1 with an SRQ", m.SRQN)
	case m.NoReceive == 0 && (m.LogRQStride < 4+m.SignatureOn || m.LogRQStride > object.MaxLogRQStride):
		return nil, control.Errorf(control.CodeInvalid, "QP: receive entries of 2^%d bytes; 2^4 to 2^%d are possible", m.LogRQStride, object.MaxLogRQStride)
	case m.NoSend == 1 && (m.SQ|uint64(m.LogSQ|m.Managed|m.BlueFlame) != 0 || object.SendsOnly(m.Type)):
		return nil, control.Errorf(control.CodeInvalid, "QP: no send queue, but one of 2^%d blocks at %#x, managed %d, BlueFlame register %d, type %d; without a send queue these are 0, and the type is RC, UC or UD",
			m.LogSQ, m.SQ, m.Managed, m.BlueFlame, m.Type)
	case m.Doorbells > control.DoorbellGuarded:
		return nil, control.Errorf(control.CodeInvalid, "QP: doorbells %d; 0 (record), 1 (register) and 2 (guarded) are possible", m.Doorbells)
	case m.Doorbells != 0 && m.NoSend|m.Managed|m.BlueFlame != 0:
		return nil, control.Errorf(control.CodeInvalid, "QP: doorbells %d with no send queue %d, managed %d, BlueFlame register %d; only without them",
			m.Doorbells, m.NoSend, m.Managed, m.BlueFlame)
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
	registers, page, err := c.UARPage("QP", m.UAR)
	if err != nil {
		return nil, err
	}
	p, ok := c.PDs[m.PDN]
	if !ok {
		return nil, object.NotFound("PD", m.PDN)
	}
	sendCQ, recvCQ, err := findCQs(c, m)
	if err != nil {
		return nil, err
	}
	q := &object.QP{
		UIDX: m.UserIndex, Client: c.Client, PD: p, Signed: m.SignatureOn == 1,
		Transport: m.Type, Allowed: states.Transports[m.Type].Opcodes,
		SQ: object.SendQueue{Mask: 1<<m.LogSQ - 1, Managed: m.Managed == 1, CQ: sendCQ, Registers: registers},
		RQ: object.ReceiveQueue{Mask: 1<<m.LogRQ - 1, Stride: m.LogRQStride, CQ: recvCQ},
	}
	switch m.Type {
	case control.QPTypeXRC:
		q.XRC = new(object.Extended)
	case control.QPTypeDCI:
		q.DC = &object.Dynamic{Tolerance: 1 << m.Streams}
	case control.QPTypeUD:
		q.Datagrams = new(object.Datagrams)
	}
	q.SetAside()
	q.CarryInline(m.Scatter)
	if m.BlueFlame != 0 {
		q.AttachBlueFlame(page, m.BlueFlame)
	}
	var sq, rec []byte
	if m.NoSend == 0 {
		q.Regions[0], sq, err = c.At("send queue", m.SQ, wqe.BlockSize<<m.LogSQ)
		if err != nil {
			return nil, err
		}
	}
	if m.NoReceive == 0 {
		q.Regions[1], q.RQ.Ring, err = c.At("receive queue", m.RQ, 1<<(m.LogRQ+m.LogRQStride))
		if err != nil {
			return nil, err
		}
	}
	if registersOnly(m) {
		q.RQ.Record, q.SQ.Record = ownRecord()
	} else {
		q.Regions[2], rec, err = c.At("QP doorbell record", m.DBRec, 8)
		if err != nil {
			return nil, err
		}
		q.RQ.Record, q.SQ.Record = shm.BE32At(rec, 0), shm.BE32At(rec, 4)
	}
	if m.SRQN != 0 {
		q.RQ.SRQ = c.SRQs[m.SRQN]
		if q.RQ.SRQ == nil {
			return nil, object.NotFound("SRQ", m.SRQN)
		}
		if q.RQ.SRQ.XRCD != nil {
			return nil, control.Errorf(control.CodeInvalid, "QP: SRQ %#06x is for targets of an XRC domain", m.SRQN)
		}
	}
	if m.NoSend == 0 {
		q.SQ.Blocks = shm.RingOf(sq)
	}
	if _, err := c.take("queue pairs", len(c.QPs), c.Device.Settings.Limits.QPs,
		costOf(q, m.Doorbells, sq)); err != nil {
		return nil, err
	}
	q.Num = newQPN(c.Device)
	if m.Doorbells != control.DoorbellRecord {
		announceBy(q, m.Doorbells, registers.Bytes()[page:], sq)
	}
	c.addQP(q)
	object.CountUser(1, q.Regions[:]...)
	p.Users++
	q.CountCQs(1)
	if q.RQ.SRQ != nil {
		q.RQ.SRQ.Users++
	}
	if m.NoSend == 1 {
		// A ring and a record of the device's own: no client can announce work in them.
		q.SQ.Blocks = object.OneBlock()
		_, q.SQ.Record = ownRecord()
	}
	for i, b := range [...][]byte{sq, q.RQ.Ring, rec} {
		if b != nil {
			c.Prefault(q.Regions[i], b)
		}
	}
	return &control.QPN{QPN: q.Num}, nil
}

// registersOnly reports whether a new queue pair has no doorbell record: no receive queue needs one, and
// registers alone announce its sends.
func registersOnly(m *control.QP) bool {
	return m.DBRec == 0 && m.NoReceive == 1 && m.Doorbells == control.DoorbellRegister
}

// ownRecord returns the two words of a record in which no client can announce anything.
func ownRecord() (receive, send *shm.BE32) {
	b := make([]byte, 8)
	return shm.BE32At(b, 0), shm.BE32At(b, 4)
}

// findCQs returns the completion queues of a new queue pair. Neither is nil: a side that the queue pair does
// not have gets the CQ of the other side if the client names none. Nothing is written there for it.
func findCQs(c *Client, m *control.QP) (send, receive *object.CQ, err error) {
	send, receive = c.CQs[m.SendCQN], c.CQs[m.RecvCQN]
	switch {
	case m.NoSend == 1 && m.SendCQN == 0:
		send = receive
	case object.SendsOnly(m.Type), m.NoReceive == 1 && m.SRQN|m.RecvCQN == 0:
		receive = send
	}
	switch {
	case send == nil:
		return nil, nil, object.NotFound("send CQ", m.SendCQN)
	case receive == nil:
		return nil, nil, object.NotFound("receive CQ", m.RecvCQN)
	case send.Dead || receive.Dead:
		return nil, nil, control.Errorf(control.CodeState, "QP: CQ %#06x or %#06x has overrun; nothing is written to it any more", send.Num, receive.Num)
	}
	return send, receive, nil
}

func destroyQP(c *Client, m *control.QPN, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.QPs[m.QPN]
	if !ok {
		return nil, object.NotFound("QP", m.QPN)
	}
	delete(c.QPs, m.QPN)
	c.leaveQP(q)
	return &control.Empty{}, nil
}

// leaveQP ends c's use of a QP. It removes the QP unless that is a target of other clients too. If another
// client owns the target from now on, those rules of faults act on it that are for that client.
func (c *Client) leaveQP(q *object.QP) {
	owner := q.Client
	defer dropLate(c.Client, q.Num, qpEvents) // the end of a transfer can be an event
	if !c.Shard.LeaveTarget(q, c.Client) {
		c.RemoveQP(q)
		return
	}
	if q.Client != owner && len(c.Device.Faults) > 0 {
		q.Faults = nil
		q.SetAside()
		c.Device.faultQueue(q, c.Device.Faults)
	}
}

// RemoveQP removes a QP from the device. Transfers of its peers end as if the QP had
// stopped answering.
func (c *Client) RemoveQP(q *object.QP) {
	sh := c.Loop()
	delete(sh.QPs, q.Num)
	sh.Watchdog.Owners.Drop(uint64(q.Num))
	custody.RecordLastPolledBy(&sh.Shard, q, c.Device.WatchesSanitize)
	sh.SetState(q, control.StateRST)
	why := uint64(0)
	if c.Closed {
		why = trace.GoneWithClient
	}
	recordGone(&sh.Shard, q.Watched, trace.KindQueueGone, q.Num, why)
	c.Device.EndCustody(q)
	q.Unwatch(q.Watched)
	sh.LeaveAll(q)
	trim(&sh.Shard)
	q.Client.Refund(q.Cost())
	q.Client.ReleasePeer(q)
	q.Dead = true
	q.PD.Users--
	q.CountCQs(-1)
	if q.RQ.SRQ != nil {
		q.RQ.SRQ.Users--
	}
	object.CountUser(-1, q.Regions[:]...)
}

// trim frees those spare jobs that exceed the number of queue pairs. Most queue pairs keep no job, some
// keep one, and those on links up to five.
func trim(sh *object.Shard) {
	if keep := len(sh.QPs); len(sh.Scratch.Spare) > keep {
		clear(sh.Scratch.Spare[keep:])
		sh.Scratch.Spare = sh.Scratch.Spare[:keep]
	}
}

// bind is called when q goes to RTR. It connects q with the queue pair that now has the
// number Attr.DestQPN. Numbers are given out again, so a queue pair that gets the number later
// is not the peer. If no queue pair has the number now, q has no peer.
func (c *Client) bind(q *object.QP) {
	sh := c.Loop()
	p := sh.QPs[q.Attr.DestQPN]
	if p == nil {
		sh.ExplainQueue(q, codes.PeerMissing, "%s", sh.WhyNoPeer(q))
		return
	}
	q.Conn.Bound = p.Serial
	if sh.Several {
		c.Device.BringTogether(q, p)
	}
}
