//go:build linux && (amd64 || arm64)

package verbs

import (
	"math/bits"
	"sync"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A qp is a queue pair.
type qp struct {
	*object
	number         uint32
	transport      uint8
	target         *target                   // set if it is of type XRC_RECV
	stage          uint8                     // of a DCT: its state, as the device numbers it
	caps           [abi.QPCapSize / 4]uint32 // struct ib_uverbs_qp_cap
	signalAll      bool
	reportsDrained bool              // the program asked for IBV_EVENT_SQ_DRAINED
	dest           *qpDest           // the destination that the program has set
	groups         map[[16]byte]bool // multicast groups, by GID
	blocksLoopback bool              // what it sends to a group does not come back to it
	context        []byte            // made by CREATE_QP: the part of QUERY_QP that the program has set
	registerOnly   bool              // doorbell registers of page alone start its work
	page           uint16            // number of its UAR page, if registerOnly is set
	events         eventState
}

// A qpDest is the struct ib_uverbs_qp_dest of a queue pair, which several contexts can have.
type qpDest struct {
	mu    sync.Mutex
	bytes [abi.QPDestSize]byte
}

// set replaces it; none clears it.
func (d *qpDest) set(b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.bytes[:])
	copy(d.bytes[:], b)
}

func (d *qpDest) get() [abi.QPDestSize]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes
}

// createQPMin is how many bytes of struct mlx5_ib_create_qp are needed: all before sq_buf_addr,
// which only raw packet queues use.
const createQPMin = abi.MLX5CreateQPSQBufAddr

// qpDriverFlags are the flags of libmlx5 that are possible.
const qpDriverFlags = abi.MLX5QPFlagSignature | abi.MLX5QPFlagScatterCQE | abi.MLX5QPFlagAllowScatterCQE |
	abi.MLX5QPFlagUARPageIndex

// scatter returns the flags of control.QP.Scatter. libmlx5 sets MLX5_QP_FLAG_SCATTER_CQE unless
// the program forbids it. The kernel's driver (configure_requester_scat_cqe in
// drivers/infiniband/hw/mlx5/qp.c) lets results into CQEs only if every work request has a CQE,
// or if the program says that it takes care of that (MLX5_QP_FLAG_ALLOW_SCATTER_CQE).
func scatter(transport uint8, driverFlags uint32, signalAll bool) (flags uint8) {
	if driverFlags&abi.MLX5QPFlagScatterCQE == 0 {
		return 0
	}
	if transport == control.QPTypeRC || transport == control.QPTypeUC {
		flags = control.ScatterResponder
	}
	if transport == control.QPTypeRC && (signalAll || driverFlags&abi.MLX5QPFlagAllowScatterCQE != 0) {
		flags |= control.ScatterRequester
	}
	return flags
}

// qpTypes has the device's type for each type of enum ib_uverbs_qp_type that is possible.
var qpTypes = map[uint64]uint8{abi.QPTRC: control.QPTypeRC, abi.QPTUC: control.QPTypeUC,
	abi.QPTUD: control.QPTypeUD, abi.QPTXRCIni: control.QPTypeXRC, abi.QPTXRCTgt: control.QPTypeXRC}

// A WQE of a receive queue has 16 to 512 bytes.
const minLogRecvWQE, maxLogRecvWQE = 4, 9

// qpRings returns the places of the two queues that struct mlx5_ib_create_qp describes: the
// receive queue is first, and the send queue follows it. total is the number of bytes of both.
func qpRings(x *uctx, d []byte, shared bool) (req control.QP, total uint64, err error) {
	sq, rq := le.Uint32(d[abi.MLX5CreateQPSQWQECount:]), le.Uint32(d[abi.MLX5CreateQPRQWQECount:])
	shift := le.Uint32(d[abi.MLX5CreateQPRQWQEShift:])
	switch {
	case sq&(sq-1) != 0 || sq > 1<<x.limits.MaxLogSQ:
		return req, 0, refuse(eINVAL, "send queue of %d blocks; powers of two up to %d are possible", sq, 1<<x.limits.MaxLogSQ)
	case rq&(rq-1) != 0 || rq > 1<<x.limits.MaxLogRQ:
		return req, 0, refuse(eINVAL, "receive queue of %d entries; powers of two up to %d are possible", rq, 1<<x.limits.MaxLogRQ)
	case rq != 0 && (shift < minLogRecvWQE || shift > maxLogRecvWQE):
		return req, 0, refuse(eINVAL, "receive entries of 2^%d bytes; 2^%d to 2^%d are possible", shift, minLogRecvWQE, maxLogRecvWQE)
	case rq != 0 && shared:
		return req, 0, refuse(eINVAL, "receive queue of %d entries, and an SRQ", rq)
	}
	buf := le.Uint64(d[abi.MLX5CreateQPBufAddr:])
	if rq == 0 {
		req.NoReceive = 1
	} else {
		req.RQ, req.LogRQ, req.LogRQStride = buf, uint8(bits.Len32(rq)-1), uint8(shift)
	}
	bytes := uint64(rq) << (shift & 15)
	req.SQ = buf + bytes
	if sq != 0 {
		req.LogSQ = uint8(bits.Len32(sq) - 1)
	}
	return req, bytes + uint64(sq)*64, nil
}

func createQP(c *call) error {
	x := c.x
	d := make([]byte, abi.MLX5CreateQPSize)
	copy(d, c.bytes(abi.AttrUHWIn))
	qpType, flags, driverFlags := c.value(abi.AttrCreateQPType), c.value(abi.AttrCreateQPFlags),
		le.Uint32(d[abi.MLX5CreateQPFlags:])
	transport, ok := qpTypes[qpType]
	knownDriver := uint32(qpDriverFlags)
	if qpType == abi.QPTDriver {
		var err error
		if transport, err = dynamicType(driverFlags); err != nil {
			return err
		}
		ok, knownDriver = true, dciDriverFlags
	}
	sendsOnly := transport == control.QPTypeXRC || transport == control.QPTypeDCI
	known := uint64(abi.QPCreateSQSigAll)
	if transport == control.QPTypeUD {
		known |= abi.QPCreateBlockMulticastLoopback
	}
	switch {
	case !ok:
		return refuse(eOPNOTSUPP, "queue pair of type %d%s; RC (2), UC (3), UD (4), XRC_SEND (9), XRC_RECV (10) and DRIVER (255) are possible",
			qpType, typeNames[qpType])
	case flags&^known != 0:
		return refuse(eOPNOTSUPP, "creation flags %#x; %#x are known", flags, known)
	case qpType == abi.QPTXRCTgt:
		return c.createTarget()
	case transport == control.QPTypeDCT:
		return c.createDCT(d)
	case driverFlags&^knownDriver != 0:
		return refuse(eOPNOTSUPP, "driver flags %#x; %#x are known", driverFlags, knownDriver)
	case driverFlags&abi.MLX5QPFlagUARPageIndex == 0:
		return refuse(eINVAL, "driver flags %#x: no UAR page is named", driverFlags)
	case c.find(abi.AttrCreateQPXRCDHandle) != nil ||
		(qpType == abi.QPTXRCIni && c.find(abi.AttrCreateQPSRQHandle) != nil):
		return refuse(eINVAL, "type %d with an XRC domain or an SRQ; only XRC_RECV has a domain, and XRC_SEND has no SRQ", qpType)
	case c.find(abi.AttrCreateQPPDHandle) == nil || c.find(abi.AttrCreateQPSendCQHandle) == nil ||
		(!sendsOnly && c.find(abi.AttrCreateQPRecvCQHandle) == nil):
		return refuse(eINVAL, "a PD, a CQ for sends and, except for XRC_SEND and DCI, a CQ for receives are needed")
	case c.find(abi.AttrCreateQPIndTableHandle) != nil:
		return refuse(eOPNOTSUPP, "indirection tables are not possible")
	}
	domain, shared := objectOf[*pd](c, abi.AttrCreateQPPDHandle), objectOf[*srq](c, abi.AttrCreateQPSRQHandle)
	send, receive := objectOf[*cq](c, abi.AttrCreateQPSendCQHandle),
		objectOf[*cq](c, abi.AttrCreateQPRecvCQHandle)
	req, size, err := qpRings(x, d, shared != nil || qpType == abi.QPTXRCIni)
	switch {
	case err != nil:
		return err
	case shared != nil && shared.xrc:
		return refuse(eINVAL, "SRQ %d is of type XRC, and the queue pair is not of type XRC_RECV", shared.handle)
	}
	req.Type, req.PDN, req.SendCQN = transport, domain.number, send.number
	req.DBRec, req.UserIndex = le.Uint64(d[abi.MLX5CreateQPDBAddr:]), le.Uint32(d[abi.MLX5CreateQPUIDX:])
	req.SignatureOn = uint8(driverFlags & abi.MLX5QPFlagSignature)
	req.Scatter = scatter(transport, driverFlags, flags&abi.QPCreateSQSigAll != 0)
	if transport == control.QPTypeDCI {
		if err := asDCI(&req, d); err != nil {
			return err
		}
	}
	req.UAR, err = x.uarPage(le.Uint32(d[abi.MLX5CreateQPBFRegIndex:]))
	if err != nil {
		return err
	}
	uses := []*object{domain.object, send.object}
	if receive != nil && qpType != abi.QPTXRCIni {
		req.RecvCQN = receive.number
		uses = append(uses, receive.object)
	}
	if shared != nil {
		if !sendsOnly {
			req.SRQN = shared.number
		}
		uses = append(uses, shared.object)
	}
	if le.Uint32(d[abi.MLX5CreateQPSQWQECount:]) != 0 {
		c.guardPosts(&req)
	}
	async, err := c.async(abi.AttrCreateQPEventFD)
	if err != nil && err != errAgain {
		return err
	}
	areas := []area{{"QP doorbell record", req.DBRec, 8, 8}}
	if size > 0 {
		areas = append(areas, area{"QP buffer", le.Uint64(d[abi.MLX5CreateQPBufAddr:]), size, 64})
	}
	if le.Uint32(d[abi.MLX5CreateQPSQWQECount:]) == 0 {
		// The device makes a send queue anyway. No work is ever announced in that queue, so any address in
		// memory that the device knows will do.
		req.SQ = req.DBRec &^ 63
	}
	held, err := c.holdAreas(areas...)
	if err != nil {
		return err
	}
	if err := held[0].zero(req.DBRec); err != nil {
		x.undoHolds(held)
		return err
	}
	if err := x.chargeQueue(kindQP, x.limits.MaxQPs); err != nil {
		x.undoHolds(held)
		return err
	}
	m, _, err := x.request(control.OpCreateQP, &req)
	if err != nil {
		x.undoHolds(held)
		x.refundObject()
		return err
	}
	q := &qp{number: m.(*control.QPN).QPN, transport: transport, signalAll: flags&abi.QPCreateSQSigAll != 0,
		events: eventState{async: async, element: c.value(abi.AttrCreateQPUserHandle)},
		groups: make(map[[16]byte]bool), blocksLoopback: flags&abi.QPCreateBlockMulticastLoopback != 0,
		dest: new(qpDest)}
	caps := c.bytes(abi.AttrCreateQPCap)
	for i := range q.caps {
		q.caps[i] = le.Uint32(caps[4*i:])
	}
	// The number of entries of the ring.
	q.caps[abi.QPCapMaxRecvWR/4] = le.Uint32(d[abi.MLX5CreateQPRQWQECount:])
	x.addQP(kindQP, q, held, uses...)
	c.putHandle(abi.AttrCreateQPHandle, q.object)
	c.put32(abi.AttrCreateQPRespCap, q.caps[:]...)
	c.put32(abi.AttrCreateQPRespQPNum, q.number)
	c.put(abi.AttrUHWOut, nil)
	return nil
}

// addQP makes the object of a queue pair, of kind kindQP or kindDEVX.
func (x *uctx) addQP(k kind, q *qp, held []*extent, uses ...*object) {
	q.object = x.add(k, q, func() error {
		x.executeAnnounced()
		if err := x.command(control.OpDestroyQP, &control.QPN{QPN: q.number}); err != nil {
			return err
		}
		delete(x.numbers, numberOf(kindQP, q.number))
		x.releasePath(q.object)
		return nil
	}, held, uses...)
	x.numbers[numberOf(kindQP, q.number)] = q
}

// destroyQP destroys a queue pair, unless that is in a multicast group.
func destroyQP(c *call) error {
	if q := c.destroyed().self.(*qp); len(q.groups) > 0 {
		return refuse(eBUSY, "QP %d: still in %d multicast groups", q.handle, len(q.groups))
	}
	return c.destroyWithEvents(abi.AttrDestroyQPResp)
}

// typeNames are names of types of queue pairs (enum ib_qp_type) that this device does not have.
var typeNames = map[uint64]string{
	0: " (SMI)", 1: " (GSI)", 8: " (RAW_PACKET, for Ethernet frames)",
}
