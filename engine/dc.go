//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The dynamically connected transport (DC). A queue pair that sends (DCI) executes the requests of
// a reliable connection. But each WQE names the queue pair that receives (DCT), so that one DCI
// can reach all DCTs, and many DCIs one DCT. See dc_request.go for what a DCI does with a WQE.

// A dynamic is what a queue pair has for DC.
type dynamic struct {
	key uint64 // of a DCT: its access key

	to        wqe.AV   // of a DCI: the address vector of the WQE that was judged last
	tolerance int      // of a DCI: how many streams have failed when the queue pair fails
	errored   []uint16 // of a DCI: the streams that have failed
}

// createDCT makes a queue pair that has a PD, an SRQ and a CQ, and no rings: as for a target of
// XRC, the queues that the device needs of every queue pair are empty and in the device's own
// memory, and no completion goes to the CQ of the send queue.
func (c *caller) createDCT(m *control.DCT, _ requestMemory, _ *control.Reply) (control.Message, error) {
	p, s, into := c.pds[m.PDN], c.srqs[m.SRQN], c.cqs[m.CQN]
	switch {
	case p == nil:
		return nil, notFound("PD", m.PDN)
	case s == nil:
		return nil, notFound("SRQ", m.SRQN)
	case into == nil:
		return nil, notFound("CQ", m.CQN)
	case s.xrcd != nil:
		return nil, control.Errorf(control.CodeInvalid, "DCT: SRQ %#06x is for targets of an XRC domain", m.SRQN)
	case into.dead:
		return nil, control.Errorf(control.CodeState, "DCT: CQ %#06x has overrun; nothing is written to it any more", into.num)
	case m.UserIndex > 0xffffff:
		return nil, control.Errorf(control.CodeInvalid, "DCT: user index %#x; 24 bits are possible", m.UserIndex)
	}
	if _, err := c.take("queue pairs", len(c.qps), c.e.cfg.limits.QPs, qpCost); err != nil {
		return nil, err
	}
	rec := make([]byte, 8)
	q := &qp{client: c.client, pd: p, uidx: m.UserIndex, transport: control.QPTypeDCT, dc: &dynamic{key: m.Key},
		sq: sendQueue{blocks: oneBlock(), cq: new(cq), record: shm.BE32At(rec, 4)},
		rq: receiveQueue{cq: into, srq: s, record: shm.BE32At(rec, 0)},
	}
	c.addQP(q)
	p.users++
	s.users++
	q.countCQs(1)
	return &control.QPN{QPN: q.num}, nil
}
