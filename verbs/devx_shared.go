//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
)

var (
	rmpEntries = place{devx.WQUmem, devx.WQUmemOffset, "the entries"}
	rmpRecord  = place{devx.WQRecordUmem, devx.WQRecord, "the doorbell record"}
)

// makeRMP serves CREATE_RMP: a receive queue that queue pairs and DCTs share. To the engine it is an SRQ.
func makeRMP(c *call, cmd []byte) error {
	x := c.x
	req := &control.SRQ{Limit: uint32(devx.WQLimit.Get(cmd)), LogSize: uint8(devx.WQLogSize.Get(cmd)),
		LogStride: uint8(devx.WQLogStride.Get(cmd))}
	switch devx.WQType.Get(cmd) {
	case devx.WQLinked:
	case devx.WQCyclic:
		req.Cyclic = 1
	default:
		return wrong(cmd, devx.WQType, devx.StatusBadParameter, "0 (linked list) and 1 (cyclic) are possible")
	}
	switch {
	case devx.RMPBasic.On(cmd):
		return wrong(cmd, devx.RMPBasic, devx.StatusBadParameter,
			"entries without a header are not possible; the capability basic_cyclic_rcv_wqe is 0")
	case devx.WQSlave.On(cmd):
		return wrong(cmd, devx.WQSlave, devx.StatusBadParameter, "the device has no RECV_EN")
	case devx.WQPageOffset.On(cmd):
		return wrong(cmd, devx.WQPageOffset, devx.StatusBadParameter, "a queue in a umem begins at wq_umem_offset")
	case devx.WQSignature.On(cmd):
		return wrong(cmd, devx.WQSignature, devx.StatusBadParameter,
			"a shared receive queue has no signatures")
	case req.LogSize > x.limits.MaxLogRQ:
		return wrong(cmd, devx.WQLogSize, devx.StatusBadParameter,
			"at most %d is possible", x.limits.MaxLogRQ)
	case req.LogStride < minLogSRQWQE || req.LogStride > maxLogRecvWQE:
		return wrong(cmd, devx.WQLogStride, devx.StatusBadParameter, "%d to %d are possible", minLogSRQWQE,
			maxLogRecvWQE)
	}
	p, err := x.domainNamed(cmd, devx.WQPD)
	if err != nil {
		return err
	}
	ring, addr, err := x.memoryAt(cmd, rmpEntries, 1<<(req.LogSize+req.LogStride), 64)
	if err != nil {
		return err
	}
	record, recordAddr, err := x.memoryAt(cmd, rmpRecord, 4, 4)
	if err != nil {
		return err
	}
	req.PDN, req.Ring, req.DBRec = p.number, addr, recordAddr
	if err := x.chargeObject(); err != nil {
		return err
	}
	held := append(ring.hold(), record.hold()...)
	m, _, err := x.request(control.OpCreateSRQ, req)
	if err != nil {
		x.undoHolds(held)
		x.refundObject()
		return refusedByEngine(cmd, err)
	}
	q := &srq{number: m.(*control.SRQN).SRQN, maxWR: 1<<req.LogSize - 1,
		maxSGE: (1<<req.LogStride - srqNextSeg) / srqDataSeg}
	q.object = x.add(kindDEVX, q, func() error { return x.destroySRQ(q) }, held,
		p.object, ring.object, record.object)
	x.numbers[numberOf(kindSRQ, q.number)] = q
	c.putMade(q.object, devx.NewRMPN, q.number)
	return nil
}

// makeDCT serves CREATE_DCT. A DCT accepts messages from its creation on.
func makeDCT(c *call, cmd []byte) error {
	x := c.x
	if state := devx.DCTState.Get(cmd); state != 0 {
		return wrong(cmd, devx.DCTState, devx.StatusBadParameter, "a DCT begins active (0)")
	}
	domain, err := x.domainNamed(cmd, devx.DCTPD)
	if err != nil {
		return err
	}
	shared, err := numbered[*srq](x, cmd, devx.DCTSRQ, kindSRQ)
	if err != nil {
		return err
	}
	into, err := numbered[*cq](x, cmd, devx.DCTCQ, kindCQ)
	if err != nil {
		return err
	}
	if shared.xrc {
		return wrong(cmd, devx.DCTSRQ, devx.StatusBadResource, "it is of type XRC")
	}
	if err := x.chargeObject(); err != nil {
		return err
	}
	m, _, err := x.request(control.OpCreateDCT, &control.DCT{PDN: domain.number, SRQN: shared.number,
		CQN: into.number, UserIndex: uint32(devx.DCTUserIndex.Get(cmd)), Key: devx.DCTKey.Get(cmd)})
	if err != nil {
		x.refundObject()
		return refusedByEngine(cmd, err)
	}
	q := &qp{number: m.(*control.QPN).QPN, transport: control.QPTypeDCT, dest: new(qpDest)}
	x.addQP(kindDEVX, q, nil, domain.object, shared.object, into.object)
	if err := c.activateDCT(q, cmd); err != nil {
		return errors.Join(err, x.remove(q.object))
	}
	c.putMade(q.object, devx.NewDCTN, q.number)
	return nil
}

// activateDCT takes a DCT to RTR.
func (c *call) activateDCT(q *qp, cmd []byte) error {
	rights := accessIn(cmd, devx.DCTReads, devx.DCTWrites, devx.DCTAtomics)
	for _, a := range []*control.QPAttr{
		{Mask: dctInit, State: control.StateINIT, Access: rights, Port: uint8(devx.DCTPort.Get(cmd)),
			PKeyIndex: uint16(devx.DCTPKeyIndex.Get(cmd))},
		{Mask: dctRTR &^ control.AttrAV, State: control.StateRTR, PathMTU: uint8(devx.DCTMTU.Get(cmd)),
			MinRNRTimer: uint8(devx.DCTMinRNR.Get(cmd))},
	} {
		a.QPN = q.number
		if err := c.x.command(control.OpModifyQP, a); err != nil {
			return refusedByEngine(cmd, err)
		}
		q.stage = a.State
	}
	return nil
}
