//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// The dynamically connected transport (DC) of mlx5: queue pairs of type DRIVER, of which the
// driver's flags say whether they send (DCI) or receive (DCT). The kernel makes a DCT when the
// program takes it to RTR, and only then returns its number. Here the device makes it at once,
// and the program gets the number at the same time as with the kernel. The same is refused as
// by the kernel's driver (drivers/infiniband/hw/mlx5/qp.c: check_qp_type, mlx5_ib_modify_dct,
// modify_dci_qp_is_ok, mlx5_ib_dct_query_qp).

// dciDriverFlags and dctDriverFlags are the driver's flags that are possible. The device puts no
// data into the completions of DC, and libmlx5 needs none there.
const (
	dciDriverFlags = qpDriverFlags | abi.MLX5QPFlagTypeDCI | abi.MLX5QPFlagDCIStream
	dctDriverFlags = abi.MLX5QPFlagTypeDCT | abi.MLX5QPFlagScatterCQE
)

// maxLogStreams is the logarithm of the number of streams whose work requests a DCI may execute at
// a time. The device executes each queue in order, so it needs no limit.
const maxLogStreams = 6

// dynamicType returns the device's type of a queue pair of type DRIVER.
func dynamicType(driverFlags uint32) (uint8, error) {
	switch driverFlags & (abi.MLX5QPFlagTypeDCI | abi.MLX5QPFlagTypeDCT) {
	case abi.MLX5QPFlagTypeDCI:
		return control.QPTypeDCI, nil
	case abi.MLX5QPFlagTypeDCT:
		return control.QPTypeDCT, nil
	}
	return 0, refuse(eINVAL, "type DRIVER with driver flags %#x; either DCT (%#x) or DCI (%#x) is possible",
		driverFlags, abi.MLX5QPFlagTypeDCT, abi.MLX5QPFlagTypeDCI)
}

// dynamic reports whether q is a DCI or a DCT.
func (q *qp) dynamic() bool {
	return q.transport == control.QPTypeDCI || q.transport == control.QPTypeDCT
}

// asDCI completes the request for a DCI. d is struct mlx5_ib_create_qp. A program may give the queue
// pair a receive queue or an SRQ, which is not used.
func asDCI(req *control.QP, d []byte) error {
	req.NoReceive, req.RQ, req.LogRQ, req.LogRQStride = 1, 0, 0, 0
	if le.Uint32(d[abi.MLX5CreateQPFlags:])&abi.MLX5QPFlagDCIStream == 0 {
		return nil
	}
	streams, errored := d[abi.MLX5CreateQPStreams], d[abi.MLX5CreateQPErrored]
	if streams > maxLogStreams || errored > control.MaxLogErrored {
		return refuse(eINVAL, "2^%d streams, of which 2^%d may fail; 2^%d and 2^%d are possible", streams,
			errored, maxLogStreams, control.MaxLogErrored)
	}
	req.Streams = errored
	return nil
}

// createDCT serves QP.CREATE for a DCT. d is struct mlx5_ib_create_qp.
func (c *call) createDCT(d []byte) error {
	x := c.x
	driverFlags := le.Uint32(d[abi.MLX5CreateQPFlags:])
	domain, shared, into := objectOf[*pd](c, abi.AttrCreateQPPDHandle),
		objectOf[*srq](c, abi.AttrCreateQPSRQHandle), objectOf[*cq](c, abi.AttrCreateQPRecvCQHandle)
	switch {
	case driverFlags&^dctDriverFlags != 0:
		return refuse(eINVAL, "driver flags %#x; %#x are known for a DCT", driverFlags, dctDriverFlags)
	case domain == nil || shared == nil || into == nil:
		return refuse(eINVAL, "a DCT needs a PD, an SRQ and a CQ for receives")
	case shared.xrc:
		return refuse(eINVAL, "SRQ %d is of type XRC, and the queue pair is not of type XRC_RECV", shared.handle)
	case c.find(abi.AttrCreateQPXRCDHandle) != nil || c.find(abi.AttrCreateQPIndTableHandle) != nil:
		return refuse(eINVAL, "a DCT has neither an XRC domain nor an indirection table")
	}
	uses := []*object{domain.object, shared.object, into.object}
	if send := objectOf[*cq](c, abi.AttrCreateQPSendCQHandle); send != nil {
		uses = append(uses, send.object)
	}
	async, err := c.async(abi.AttrCreateQPEventFD)
	if err != nil && err != errAgain {
		return err
	}
	if err := x.chargeQueue(kindQP, x.limits.MaxQPs); err != nil {
		return err
	}
	m, _, err := x.request(control.OpCreateDCT,
		&control.DCT{PDN: domain.number, SRQN: shared.number, CQN: into.number,
			UserIndex: le.Uint32(d[abi.MLX5CreateQPUIDX:]), Key: le.Uint64(d[abi.MLX5CreateQPAccessKey:])})
	if err != nil {
		x.refundObject()
		return err
	}
	q := &qp{number: m.(*control.QPN).QPN, transport: control.QPTypeDCT, dest: new(qpDest),
		events: eventState{async: async, element: c.value(abi.AttrCreateQPUserHandle)}}
	caps := c.bytes(abi.AttrCreateQPCap)
	for i := range q.caps {
		q.caps[i] = le.Uint32(caps[4*i:])
	}
	x.addQP(kindQP, q, nil, uses...)
	c.putHandle(abi.AttrCreateQPHandle, q.object)
	c.put32(abi.AttrCreateQPRespCap, q.caps[:]...)
	c.put32(abi.AttrCreateQPRespQPNum, 0)
	c.put(abi.AttrUHWOut, nil)
	return nil
}

// Attributes that a DCT must be given, no others.
const (
	dctInit = control.AttrState | control.AttrAccess | control.AttrPKeyIndex | control.AttrPort
	dctRTR  = control.AttrState | control.AttrMinRNRTimer | control.AttrAV | control.AttrPathMTU
)

// checkDynamic checks a request to modify a DCI or a DCT, as far as the device does not. b is
// struct ib_uverbs_modify_qp.
func (c *call) checkDynamic(q *qp, b []byte, mask uint32) error {
	state := b[abi.ModifyQPQPState]
	if q.transport == control.QPTypeDCI {
		if mask&control.AttrAV != 0 && (mask&control.AttrState == 0 || state != abi.QPSRTR) {
			return refuse(eINVAL, "mask %#x: a DCI takes an address only on its way to RTR", mask)
		}
		return nil
	}
	switch {
	case state == abi.QPSInit && mask == dctInit && q.stage == control.StateRST:
		return nil
	case state != abi.QPSRTR || mask != dctRTR || q.stage != control.StateINIT:
		return refuse(eINVAL, "DCT in state %d: to state %d with mask %#x; it goes to INIT (1) with mask %#x and then to RTR (2) with %#x",
			verbsStates[q.stage], state, mask, dctInit, dctRTR)
	case c.room(abi.AttrUHWOut) < abi.MLX5ModifyQPRespDCTN+4:
		return refuse(eINVAL, "the answer has no room for the number of the DCT")
	}
	return nil
}

// putModified puts struct mlx5_ib_modify_qp_resp. req is struct ib_uverbs_modify_qp of a request
// that has been served.
func (c *call) putModified(req []byte) {
	number := uint32(0)
	if q, err := lookup[*qp](c, "qp", le.Uint32(req[abi.ModifyQPQPHandle:]), kindQP); err == nil &&
		q.transport == control.QPTypeDCT && q.stage == control.StateRTR {
		number = q.number
	}
	c.put32(abi.AttrUHWOut, abi.MLX5ModifyQPRespSize, number) // response_length, dctn
}

// dctQuery are the attributes that can be asked of a DCT.
const dctQuery = control.AttrState | control.AttrAccess | control.AttrPort | control.AttrMinRNRTimer |
	control.AttrAV | control.AttrPathMTU | control.AttrPKeyIndex

// checkDCTQuery refuses questions that cannot be asked of a DCT.
func (q *qp) checkDCTQuery(mask uint32) error {
	if q.transport != control.QPTypeDCT {
		return nil
	}
	if q.stage != control.StateRTR || mask&^dctQuery != 0 {
		return refuse(eINVAL, "DCT in state %d, mask %#x; in RTR (2) it can be asked for %#x", verbsStates[q.stage], mask, dctQuery)
	}
	return nil
}

// resetStream serves RTS2RTS_QP as mlx5dv_dci_stream_id_reset sends it.
func (c *call) resetStream(q *qp, cmd []byte) error {
	mask, more := devx.OptParamMask.Get(cmd), devx.OptParamMaskMore.Get(cmd)
	if least := devx.QPErroredStream.End(); len(cmd) < least {
		return refuse(eINVAL, "RTS2RTS_QP with qpc_ext: %d bytes; at least %d are needed", len(cmd), least)
	}
	if mask != 0 || more != devx.OptMoreStream {
		return refuse(eINVAL, "RTS2RTS_QP with qpc_ext: masks %#x and %#x; only a stream can be reset", mask, more)
	}
	if err := c.x.client.ResetStream(q.number, uint16(devx.QPErroredStream.Get(cmd))); err != nil {
		return refuse(eINVAL, "RTS2RTS_QP: %v", err)
	}
	c.put(abi.MLX5AttrDEVXObjModifyCmdOut, nil)
	return nil
}

// mapAddress serves CREATE_GENERAL_OBJECT as mlx5dv_map_ah_to_qp sends it: the messages to an address
// are to share the congestion control of a queue pair. There is no congestion here, so nothing
// follows from it.
func (c *call) mapAddress(cmd []byte) error {
	if least := devx.MappedQPN.End(); len(cmd) < least {
		return refuse(eINVAL, "CREATE_GENERAL_OBJECT of type %#x: %d bytes; at least %d are needed", devx.ObjectMap, len(cmd), least)
	}
	if n := devx.MappedQPN.Get(cmd); n > bits24 {
		return refuse(eINVAL, "CREATE_GENERAL_OBJECT of type %#x: queue pair number %#x; 24 bits are possible", devx.ObjectMap, n)
	}
	if err := c.x.chargeObject(); err != nil {
		return err
	}
	o := c.x.add(kindDEVX, devx.ObjectMap, func() error { return nil }, nil)
	c.putMade(o, devx.NewObjectID, o.handle)
	return nil
}
