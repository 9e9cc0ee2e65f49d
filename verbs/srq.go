package verbs

import (
	"math/bits"

	"github.com/nicless/nicless/internal/control"
)

// An srq is a shared receive queue.
type srq struct {
	*object
	number        uint32
	maxWR, maxSGE uint32
	events        counted
}

// createSRQIn is what is needed of libmlx5's request: buf u64, dbrec u64, flags u32,
// reserved u32, uidx u32.
const createSRQIn = 24

// An entry begins with 16 bytes that name the next one; pieces of 16 bytes follow.
const (
	srqNext   = 16
	srqPiece  = 16
	maxSRQSGE = 512/srqPiece - 1
)

func createSRQ(c *call) error {
	x := c.x
	d := make([]byte, 32)
	copy(d, c.bytes(uhwIn))
	wr, sge := c.value32(5), c.value32(6)
	most := uint32(1)<<x.limits.MaxLogRQ - 1
	switch {
	case c.value(9) != 0 || c.find(2) != nil || c.find(3) != nil:
		return refuse(eOPNOTSUPP, "SRQ of type %d; basic ones (0) are possible", c.value(9))
	case wr > most:
		return refuse(eINVAL, "SRQ of %d entries; at most %d are possible", wr, most)
	case sge > maxSRQSGE:
		return refuse(eINVAL, "SRQ with %d pieces in an entry; at most %d are possible", sge, maxSRQSGE)
	case le.Uint32(d[16:]) != 0:
		return refuse(eOPNOTSUPP, "driver flags %#x; none are known", le.Uint32(d[16:]))
	}
	p := objectOf[*pd](c, 1)
	req := &control.SRQ{PDN: p.number, Limit: c.value32(7), Ring: le.Uint64(d), DBRec: le.Uint64(d[8:]),
		LogSize: uint8(bits.Len32(wr)), LogStride: uint8(max(5, bits.Len32(srqNext+srqPiece*sge-1)))}
	async, err := c.async(10)
	if err != nil && err != errAgain {
		return err
	}
	held, err := c.areas(area{"SRQ buffer", req.Ring, 1 << (req.LogSize + req.LogStride), 64}, area{"SRQ doorbell record", req.DBRec, 8, 8})
	if err != nil {
		return err
	}
	if err := held[1].zero(req.DBRec); err != nil {
		x.putBack(held)
		return err
	}
	if err := x.may(); err != nil {
		x.putBack(held)
		return err
	}
	m, _, err := x.ask(control.OpCreateSRQ, req)
	if err != nil {
		x.putBack(held)
		x.mayNot()
		return err
	}
	q := &srq{number: m.(*control.SRQN).SRQN, maxWR: 1<<req.LogSize - 1, maxSGE: (1<<req.LogStride - srqNext) / srqPiece,
		events: counted{async: async, element: c.value(4)}}
	q.object = x.add(kindSRQ, q, func() error {
		if err := x.tell(control.OpDestroySRQ, &control.SRQN{SRQN: q.number}); err != nil {
			return err
		}
		delete(x.numbers, numberOf(kindSRQ, q.number))
		return nil
	}, held, p.object)
	x.numbers[numberOf(kindSRQ, q.number)] = q
	c.putHandle(0, q.object)
	c.put32(11, q.maxWR)
	c.put32(12, q.maxSGE)
	c.put32(13, q.number)
	c.put32(uhwOut, q.number)
	return nil
}

// modifySRQ: handle u32, mask u32 (1 max_wr, 2 limit), max_wr u32, limit u32.
func modifySRQ(c *call, req []byte) error {
	q, err := lookup[*srq](c, "srq", le.Uint32(req), kindSRQ)
	if err != nil {
		return err
	}
	mask, limit := le.Uint32(req[4:]), le.Uint32(req[12:])
	switch {
	case mask&^2 != 0:
		return refuse(eINVAL, "mask %#x: the limit (2) can be changed", mask)
	case mask == 0:
		return nil
	case limit >= q.maxWR+1:
		return refuse(eINVAL, "limit %d of %d entries", limit, q.maxWR)
	}
	return c.x.tell(control.OpModifySRQ, &control.SRQLimit{SRQN: q.number, Limit: limit})
}

// querySRQ: response u64, handle u32.
func querySRQ(c *call, req []byte) error {
	q, err := lookup[*srq](c, "srq", le.Uint32(req[8:]), kindSRQ)
	if err != nil {
		return err
	}
	m, _, err := c.x.ask(control.OpQuerySRQ, &control.SRQN{SRQN: q.number})
	if err != nil {
		return err
	}
	c.put32(1, q.maxWR, q.maxSGE, m.(*control.SRQLimit).Limit, 0)
	return nil
}
