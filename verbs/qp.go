package verbs

import (
	"math/bits"

	"github.com/nicless/nicless/internal/control"
)

// A qp is a queue pair.
type qp struct {
	*object
	number       uint32
	transport    uint8
	caps         [5]uint32 // max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline
	signalAll    bool
	tellsDrained bool // the program wants to hear of it
	path         [32]byte
	groups       map[[16]byte]bool // multicast
	events       counted
}

// createQPIn is what is needed of libmlx5's request: buf u64, dbrec u64, sq_wqe_count
// u32, rq_wqe_count u32, rq_wqe_shift u32, flags u32, uidx u32, bfreg u32.
const createQPIn = 40

const (
	qpFlagSignature = 1 << 0
	qpFlagScatter   = 1 << 1 // to CQE: allowed, and never done
	qpFlagUAR       = 1 << 10
	qpFlagsKnown    = qpFlagSignature | qpFlagScatter | qpFlagUAR

	// Of the core's flags. What a QP sends to a multicast group never comes back to
	// it, whether it asks for that or not.
	createNoMulticastLoop = 1 << 1
	createSignalAll       = 1 << 12
)

// qpTypes are the types of verbs and of the device.
var qpTypes = map[uint64]uint8{2: control.QPTypeRC, 3: control.QPTypeUC, 4: control.QPTypeUD}

// rings says where the two queues of a request lie.
func rings(x *uctx, d []byte, shared bool) (req control.QP, total uint64, err error) {
	sq, rq, shift := le.Uint32(d[16:]), le.Uint32(d[20:]), le.Uint32(d[24:])
	switch {
	case sq&(sq-1) != 0 || sq > 1<<x.limits.MaxLogSQ:
		return req, 0, refuse(eINVAL, "send queue of %d blocks; powers of two up to %d are possible", sq, 1<<x.limits.MaxLogSQ)
	case rq&(rq-1) != 0 || rq > 1<<x.limits.MaxLogRQ:
		return req, 0, refuse(eINVAL, "receive queue of %d entries; powers of two up to %d are possible", rq, 1<<x.limits.MaxLogRQ)
	case rq != 0 && (shift < 4 || shift > 9):
		return req, 0, refuse(eINVAL, "receive entries of 2^%d bytes; 2^4 to 2^9 are possible", shift)
	case rq != 0 && shared:
		return req, 0, refuse(eINVAL, "receive queue of %d entries, and an SRQ", rq)
	}
	buf := le.Uint64(d)
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
	d := make([]byte, 56)
	copy(d, c.bytes(uhwIn))
	transport, ok := qpTypes[c.value(9)]
	flags, create, known := le.Uint32(d[28:]), c.value(10), uint64(createSignalAll)
	if transport == control.QPTypeUD {
		known |= createNoMulticastLoop
	}
	switch {
	case !ok:
		return refuse(eOPNOTSUPP, "type %d; RC (2), UC (3) and UD (4) are possible", c.value(9))
	case create&^known != 0:
		return refuse(eOPNOTSUPP, "creation flags %#x; %#x are known", create, known)
	case flags&^qpFlagsKnown != 0:
		return refuse(eOPNOTSUPP, "driver flags %#x; %#x are known", flags, qpFlagsKnown)
	case flags&qpFlagUAR == 0:
		return refuse(eINVAL, "driver flags %#x: no UAR page is named", flags)
	case c.find(2) == nil || c.find(4) == nil || c.find(5) == nil:
		return refuse(eINVAL, "a PD and two CQs are needed")
	case c.find(1) != nil || c.find(6) != nil:
		return refuse(eOPNOTSUPP, "XRC domains and indirection tables are not possible")
	}
	domain, send, receive, shared := objectOf[*pd](c, 2), objectOf[*cq](c, 4), objectOf[*cq](c, 5), objectOf[*srq](c, 3)
	req, size, err := rings(x, d, shared != nil)
	if err != nil {
		return err
	}
	req.Type, req.PDN, req.SendCQN, req.RecvCQN = transport, domain.number, send.number, receive.number
	req.DBRec, req.UserIndex, req.SignatureOn = le.Uint64(d[8:]), le.Uint32(d[32:]), uint8(flags&qpFlagSignature)
	if req.UAR, err = x.uarPage(le.Uint32(d[36:])); err != nil {
		return err
	}
	uses := []*object{domain.object, send.object, receive.object}
	if shared != nil {
		req.SRQN = shared.number
		uses = append(uses, shared.object)
	}
	async, err := c.async(12)
	if err != nil && err != errAgain {
		return err
	}
	areas := []area{{"QP doorbell record", req.DBRec, 8, 8}}
	if size > 0 {
		areas = append(areas, area{"QP buffer", le.Uint64(d), size, 64})
	}
	if le.Uint32(d[16:]) == 0 {
		// No sends: nothing is ever announced, so any place will do.
		req.SQ = req.DBRec &^ 63
	}
	held, err := c.areas(areas...)
	if err != nil {
		return err
	}
	if err := held[0].zero(req.DBRec); err != nil {
		x.putBack(held)
		return err
	}
	if err := x.may(); err != nil {
		x.putBack(held)
		return err
	}
	m, _, err := x.ask(control.OpCreateQP, &req)
	if err != nil {
		x.putBack(held)
		x.mayNot()
		return err
	}
	q := &qp{number: m.(*control.QPN).QPN, transport: transport, signalAll: create&createSignalAll != 0,
		events: counted{async: async, element: c.value(7)}, groups: make(map[[16]byte]bool)}
	caps := c.bytes(8)
	for i := range q.caps {
		q.caps[i] = le.Uint32(caps[4*i:])
	}
	q.caps[1] = le.Uint32(d[20:]) // as many as the ring has
	q.object = x.add(kindQP, q, func() error {
		x.settle()
		if err := x.tell(control.OpDestroyQP, &control.QPN{QPN: q.number}); err != nil {
			return err
		}
		delete(x.numbers, numberOf(kindQP, q.number))
		return nil
	}, held, uses...)
	x.numbers[numberOf(kindQP, q.number)] = q
	c.putHandle(0, q.object)
	c.put32(13, q.caps[:]...)
	c.put32(14, q.number)
	c.put(uhwOut, nil)
	return nil
}
