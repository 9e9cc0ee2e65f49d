//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
)

// qpContextSize is how many bytes the context of a queue pair has in a mailbox (qpc in mlx5_ifc.h).
const (
	qpContextAt   = 0x18
	qpContextSize = 0xe8
)

var (
	qpQueues = place{devx.QPUmem, devx.QPUmemOffset, "the queues"}
	qpRecord = place{devx.QPRecordUmem, devx.QPRecord, "the doorbell record"}
)

// makeQP serves CREATE_QP.
func makeQP(c *call, cmd []byte) error {
	x := c.x
	req, err := queueSizes(x, cmd)
	if err != nil {
		return err
	}
	domain, err := x.domainNamed(cmd, devx.QPPD)
	if err != nil {
		return err
	}
	req.PDN = domain.number
	uses := []*object{domain.object}
	used, err := c.queuesOfQP(req, cmd)
	if err != nil {
		return err
	}
	held, umems, err := c.memoryOfQP(req, cmd)
	if err != nil {
		return err
	}
	uses = append(append(uses, used...), umems...)
	req.UAR, err = x.pageNamed(cmd, devx.QPUAR)
	if err == nil && req.Doorbells == control.DoorbellRegister {
		err = x.registerLeft(cmd, req.UAR)
	}
	if err == nil {
		err = x.chargeObject()
	}
	if err != nil {
		x.undoHolds(held)
		return err
	}
	if req.NoSend == 0 {
		c.guardPosts(req)
	}
	m, _, err := x.request(control.OpCreateQP, req)
	if err != nil {
		x.undoHolds(held)
		x.refundObject()
		return refusedByEngine(cmd, err)
	}
	q := &qp{number: m.(*control.QPN).QPN, transport: req.Type, dest: new(qpDest),
		groups: make(map[[16]byte]bool), context: make([]byte, qpContextAt+qpContextSize),
		registerOnly: req.Doorbells == control.DoorbellRegister, page: req.UAR}
	copy(q.context[qpContextAt:], cmd[qpContextAt:])
	x.addQP(kindDEVX, q, held, uses...)
	c.putMade(q.object, devx.NewQPN, q.number)
	return nil
}

// queueSizes returns what CREATE_QP says without naming other objects.
func queueSizes(x *uctx, cmd []byte) (*control.QP, error) {
	req := &control.QP{Type: uint8(devx.QPType.Get(cmd)), UserIndex: uint32(devx.QPUserIndex.Get(cmd)),
		LogSQ: uint8(devx.QPLogSQ.Get(cmd)), NoReceive: 1}
	switch req.Type {
	case control.QPTypeRC, control.QPTypeUC, control.QPTypeUD:
	case control.QPTypeDCI:
		if log := devx.QPLogErrored.Get(cmd); log > control.MaxLogErrored {
			return nil, wrong(cmd, devx.QPLogErrored, devx.StatusBadParameter, "at most %d is possible",
				control.MaxLogErrored)
		}
		if log := devx.QPLogStreams.Get(cmd); log > maxLogStreams {
			return nil, wrong(cmd, devx.QPLogStreams, devx.StatusBadParameter,
				"at most %d is possible", maxLogStreams)
		}
		req.Streams = uint8(devx.QPLogErrored.Get(cmd))
	default:
		return nil, wrong(cmd, devx.QPType, devx.StatusBadParameter,
			"RC (0), UC (1), UD (2) and DCI (5) are possible")
	}
	switch {
	case devx.QPState.On(cmd):
		return nil, wrong(cmd, devx.QPState, devx.StatusBadParameter, "a queue pair begins in RST (0)")
	case req.LogSQ > x.limits.MaxLogSQ:
		return nil, wrong(cmd, devx.QPLogSQ, devx.StatusBadParameter,
			"at most %d is possible", x.limits.MaxLogSQ)
	case devx.QPPageOffset.On(cmd):
		return nil, wrong(cmd, devx.QPPageOffset, devx.StatusBadParameter,
			"a queue in a umem begins at wq_umem_offset")
	case devx.QPSlaveReceive.On(cmd):
		return nil, wrong(cmd, devx.QPSlaveReceive, devx.StatusBadParameter, "the device has no RECV_EN")
	}
	if devx.QPSignature.On(cmd) {
		req.SignatureOn = 1
	}
	if devx.QPSlaveSend.On(cmd) {
		req.Managed = 1
	}
	if devx.QPNoSQ.On(cmd) {
		req.NoSend, req.LogSQ = 1, 0
	}
	if mode := devx.QPDoorbells.Get(cmd); mode > 2 {
		return nil, wrong(cmd, devx.QPDoorbells, devx.StatusBadParameter,
			"0 (record), 1 and 2 (register alone) are possible")
	}
	if devx.QPDoorbells.On(cmd) && req.NoSend == 0 {
		req.Doorbells = control.DoorbellRegister
	}
	if devx.QPRQType.Get(cmd) == devx.RQOwn && !sendsOnly(req.Type) {
		req.NoReceive = 0
		req.LogRQ = uint8(devx.QPLogRQ.Get(cmd))
		req.LogRQStride = uint8(devx.QPLogRQStride.Get(cmd)) + minLogRecvWQE
		if req.LogRQStride > maxLogRecvWQE {
			return nil, wrong(cmd, devx.QPLogRQStride, devx.StatusBadParameter, "at most %d is possible",
				maxLogRecvWQE-minLogRecvWQE)
		}
	}
	// cs_req (0x11: up to 32 bytes, 0x22: up to 64) lets a device put results into CQEs, and does not demand
	// it: programs look at the format of each CQE. UCX takes results of atomics there for big-endian;
	// libmlx5, which copies them as they are, and this device have those of 8 bytes in host order. So they
	// go to memory, and results of READs with them, because a queue has one option for both.
	if devx.QPInReceives.On(cmd) && (req.Type == control.QPTypeRC || req.Type == control.QPTypeUC) {
		req.Scatter |= control.ScatterResponder
	}
	return req, nil
}

// sendsOnly reports whether queue pairs of a transport have no receives.
func sendsOnly(transport uint8) bool {
	return transport == control.QPTypeXRC || transport == control.QPTypeDCI
}

// queuesOfQP finds the completion queues and the shared receive queue that CREATE_QP names.
func (c *call) queuesOfQP(req *control.QP, cmd []byte) (uses []*object, err error) {
	x := c.x
	if req.NoSend == 0 || devx.QPSendCQ.On(cmd) {
		send, err := numbered[*cq](x, cmd, devx.QPSendCQ, kindCQ)
		if err != nil {
			return nil, err
		}
		req.SendCQN, uses = send.number, append(uses, send.object)
	}
	kind := devx.QPRQType.Get(cmd)
	if kind > devx.RQNone {
		return nil, wrong(cmd, devx.QPRQType, devx.StatusBadParameter, "0 to 3 are possible")
	}
	if sendsOnly(req.Type) {
		return uses, nil
	}
	if kind != devx.RQNone || devx.QPReceiveCQ.On(cmd) {
		receive, err := numbered[*cq](x, cmd, devx.QPReceiveCQ, kindCQ)
		if err != nil {
			return nil, err
		}
		req.RecvCQN, uses = receive.number, append(uses, receive.object)
	}
	if kind == devx.RQShared || kind == devx.RQZero {
		shared, err := numbered[*srq](x, cmd, devx.QPSRQ, kindSRQ)
		if err != nil {
			return nil, err
		}
		req.SRQN, uses = shared.number, append(uses, shared.object)
	}
	return uses, nil
}

// memoryOfQP finds the rings and the doorbell record that CREATE_QP names, and holds their umems. As with
// the verbs, the receive queue comes first.
func (c *call) memoryOfQP(req *control.QP, cmd []byte) (held []*extent, uses []*object, err error) {
	x := c.x
	var receives, sends uint64
	if req.NoReceive == 0 {
		receives = 1 << (req.LogRQ + req.LogRQStride)
	}
	if req.NoSend == 0 {
		sends = 64 << req.LogSQ
	}
	var umems []*umem
	if receives+sends > 0 {
		ring, addr, err := x.memoryAt(cmd, qpQueues, receives+sends, 64)
		if err != nil {
			return nil, nil, err
		}
		umems = append(umems, ring)
		if receives > 0 {
			req.RQ = addr
		}
		if sends > 0 {
			req.SQ = addr + receives
		}
	}
	// If registers alone announce the work, and there is no receive queue, nobody reads a record. Clients
	// may name one all the same.
	if devx.QPRecordUmem.On(cmd) || req.Doorbells != control.DoorbellRegister || receives > 0 {
		record, addr, err := x.memoryAt(cmd, qpRecord, 8, 8)
		if err != nil {
			return nil, nil, err
		}
		umems, req.DBRec = append(umems, record), addr
	}
	for _, u := range umems {
		held, uses = append(held, u.hold()...), append(uses, u.object)
	}
	return held, uses, nil
}
