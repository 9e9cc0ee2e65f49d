//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
)

// resizeCQ moves a completion queue to another buffer.
func (c *caller) resizeCQ(m *control.ResizeCQ, _ requestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.cqs[m.CQN]
	switch {
	case !ok:
		return nil, notFound("CQ", m.CQN)
	case m.LogSize > maxLogCQ || m.LogCQE != 6 && m.LogCQE != 7 || m.Buf%64 != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ %#06x: 2^%d entries of 2^%d bytes at %#x; up to 2^%d of 2^6 or 2^7 on a multiple of 64 are possible",
			q.num, m.LogSize, m.LogCQE, m.Buf, maxLogCQ)
	case q.session != nil && uint(m.LogCQE) != q.logCQE:
		return nil, control.Errorf(control.CodeInvalid, "CQ %#06x: compressed; its entries keep their 2^%d bytes, not 2^%d", q.num, q.logCQE, m.LogCQE)
	case q.collapsed || q.dead:
		return nil, control.Errorf(control.CodeState, "CQ %#06x: a collapsed queue, or one that overran, keeps its buffer", q.num)
	}
	region, buf, err := c.at("CQ buffer", m.Buf, 1<<(m.LogSize+m.LogCQE))
	if err != nil {
		return nil, err
	}
	q.room(1 << q.log) // observes the consumer index
	unread := q.unread()
	switch {
	case q.ignore:
		// The client does not say what it has polled, and entries may be overwritten. So
		// none need be kept.
		unread = 0
	case unread >= 1<<q.log:
		return nil, control.Errorf(control.CodeBusy, "CQ %#06x: full; poll it before it is resized", q.num)
	case unread+1 > 1<<m.LogSize:
		return nil, control.Errorf(control.CodeInvalid, "CQ %#06x: 2^%d entries do not hold the %d that have not been polled, and one more",
			q.num, m.LogSize, unread)
	}
	// The last entry of the old buffer tells the client of the resize. This entry takes an
	// index like any other. The client copies each unpolled entry to the new buffer at an
	// index one higher, so that the copies end directly before the device's next entry.
	c.loop().complete(q, 0, 0, 0, 0, 0, responderTail(0, 0, cqe.ResizeCQ), quietly)
	q.floor = q.next - unread
	countUser(-1, q.region, q.records)
	countUser(1, region, q.records)
	q.region, q.buf, q.log, q.logCQE = region, buf, uint(m.LogSize), uint(m.LogCQE)
	return &control.Empty{}, nil
}
