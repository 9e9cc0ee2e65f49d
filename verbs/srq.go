//go:build linux && (amd64 || arm64)

package verbs

import (
	"math/bits"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// An srq is a shared receive queue.
type srq struct {
	*object
	number        uint32
	maxWR, maxSGE uint32
	xrc           bool
	events        eventState
}

// createSRQMin is how many bytes of struct mlx5_ib_create_srq are needed: all before uidx, which
// only queues of other types use.
const createSRQMin = abi.MLX5CreateSRQUIDX

// A WQE of an SRQ is a struct mlx5_wqe_srq_next_seg followed by data segments.
const (
	srqNextSeg    = 16
	srqDataSeg    = 16
	minLogSRQWQE  = 5
	maxSRQWQESize = 512
	maxSRQSGE     = (maxSRQWQESize - srqNextSeg) / srqDataSeg
)

func createSRQ(c *call) error {
	x := c.x
	d := make([]byte, abi.MLX5CreateSRQSize)
	copy(d, c.bytes(abi.AttrUHWIn))
	srqType, driverFlags := c.value(abi.AttrCreateSRQType), le.Uint32(d[abi.MLX5CreateSRQFlags:])
	wr, sge := c.value32(abi.AttrCreateSRQMaxWR), c.value32(abi.AttrCreateSRQMaxSGE)
	most := uint32(1)<<x.limits.MaxLogRQ - 1
	switch {
	case srqType != abi.SRQTBasic && srqType != abi.SRQTXRC:
		return refuse(eOPNOTSUPP, "SRQ of type %d; basic ones (0) and those of type XRC (1) are possible", srqType)
	case srqType == abi.SRQTXRC &&
		(c.find(abi.AttrCreateSRQXRCDHandle) == nil || c.find(abi.AttrCreateSRQCQHandle) == nil):
		return refuse(eNOENT, "an SRQ of type XRC needs an XRC domain and a CQ")
	case wr > most:
		return refuse(eINVAL, "SRQ of %d entries; at most %d are possible", wr, most)
	case sge > maxSRQSGE:
		return refuse(eINVAL, "SRQ with %d data segments in an entry; at most %d are possible", sge, maxSRQSGE)
	case driverFlags != 0:
		return refuse(eOPNOTSUPP, "driver flags %#x; none are known", driverFlags)
	}
	p := objectOf[*pd](c, abi.AttrCreateSRQPDHandle)
	req := &control.SRQ{PDN: p.number, Limit: c.value32(abi.AttrCreateSRQLimit),
		Ring: le.Uint64(d[abi.MLX5CreateSRQBufAddr:]), DBRec: le.Uint64(d[abi.MLX5CreateSRQDBAddr:]),
		LogSize:   uint8(bits.Len32(wr)),
		LogStride: uint8(max(minLogSRQWQE, bits.Len32(srqNextSeg+srqDataSeg*sge-1)))}
	async, err := c.async(abi.AttrCreateSRQEventFD)
	if err != nil && err != errAgain {
		return err
	}
	held, err := c.holdAreas(area{"SRQ buffer", req.Ring, 1 << (req.LogSize + req.LogStride), 64},
		area{"SRQ doorbell record", req.DBRec, 8, 8})
	if err != nil {
		return err
	}
	if err := held[1].zero(req.DBRec); err != nil {
		x.undoHolds(held)
		return err
	}
	if err := x.chargeQueue(kindSRQ, x.limits.MaxQPs); err != nil {
		x.undoHolds(held)
		return err
	}
	op, message, uses := control.OpCreateSRQ, control.Message(req), []*object{p.object}
	if srqType == abi.SRQTXRC {
		domain, into := objectOf[*xrcd](c, abi.AttrCreateSRQXRCDHandle),
			objectOf[*cq](c, abi.AttrCreateSRQCQHandle)
		op, message = control.OpCreateXSRQ, &control.XSRQ{SRQ: *req, XRCDN: domain.number, CQN: into.number,
			UserIndex: le.Uint32(d[abi.MLX5CreateSRQUIDX:])}
		uses = append(uses, domain.object, into.object)
	}
	m, _, err := x.request(op, message)
	if err != nil {
		x.undoHolds(held)
		x.refundObject()
		return err
	}
	q := &srq{number: m.(*control.SRQN).SRQN, maxWR: 1<<req.LogSize - 1,
		maxSGE: (1<<req.LogStride - srqNextSeg) / srqDataSeg, xrc: srqType == abi.SRQTXRC,
		events: eventState{async: async, element: c.value(abi.AttrCreateSRQUserHandle)}}
	q.object = x.add(kindSRQ, q, func() error { return x.destroySRQ(q) }, held, uses...)
	x.numbers[numberOf(kindSRQ, q.number)] = q
	c.putHandle(abi.AttrCreateSRQHandle, q.object)
	c.put32(abi.AttrCreateSRQRespMaxWR, q.maxWR)
	c.put32(abi.AttrCreateSRQRespMaxSGE, q.maxSGE)
	c.put32(abi.AttrCreateSRQRespSRQNum, q.number)
	c.put32(abi.AttrUHWOut, q.number) // struct mlx5_ib_create_srq_resp
	return nil
}

func (x *uctx) destroySRQ(q *srq) error {
	if err := x.command(control.OpDestroySRQ, &control.SRQN{SRQN: q.number}); err != nil {
		return err
	}
	delete(x.numbers, numberOf(kindSRQ, q.number))
	return nil
}

func destroySRQ(c *call) error { return c.destroyWithEvents(abi.AttrDestroySRQResp) }

// modifySRQ serves MODIFY_SRQ. The request is struct ib_uverbs_modify_srq.
func modifySRQ(c *call, req []byte) error {
	q, err := lookup[*srq](c, "srq", le.Uint32(req[abi.ModifySRQSRQHandle:]), kindSRQ)
	if err != nil {
		return err
	}
	mask, limit := le.Uint32(req[abi.ModifySRQAttrMask:]), le.Uint32(req[abi.ModifySRQSRQLimit:])
	switch {
	case mask&^abi.SRQLimit != 0:
		return refuse(eINVAL, "mask %#x: the limit (2) can be changed", mask)
	case mask == 0:
		return nil
	case limit >= q.maxWR+1:
		return refuse(eINVAL, "limit %d of %d entries", limit, q.maxWR)
	}
	return c.x.command(control.OpModifySRQ, &control.SRQLimit{SRQN: q.number, Limit: limit})
}

// querySRQ serves QUERY_SRQ. The request is struct ib_uverbs_query_srq.
func querySRQ(c *call, req []byte) error {
	q, err := lookup[*srq](c, "srq", le.Uint32(req[abi.QuerySRQSRQHandle:]), kindSRQ)
	if err != nil {
		return err
	}
	m, _, err := c.x.request(control.OpQuerySRQ, &control.SRQN{SRQN: q.number})
	if err != nil {
		return err
	}
	// Struct ib_uverbs_query_srq_resp.
	c.put32(abi.AttrCoreOut, q.maxWR, q.maxSGE, m.(*control.SRQLimit).Limit, 0)
	return nil
}
