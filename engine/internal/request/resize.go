//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/trace"
)

// resizeCQ moves a completion queue to another buffer.
func resizeCQ(c *Client, m *control.ResizeCQ, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	q, ok := c.CQs[m.CQN]
	knownSize := m.LogCQE == 6 || m.LogCQE == 7
	switch {
	case !ok:
		return nil, object.NotFound("CQ", m.CQN)
	case m.LogSize > object.MaxLogCQ || !knownSize || m.Buf%64 != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ %#06x: 2^%d entries of 2^%d bytes at %#x; up to 2^%d of 2^6 or 2^7 on a multiple of 64 are possible",
			q.Num, m.LogSize, m.LogCQE, m.Buf, object.MaxLogCQ)
	case q.Session != nil && uint(m.LogCQE) != q.LogCQE:
		return nil, control.Errorf(control.CodeInvalid, "CQ %#06x: compressed; its entries keep their 2^%d bytes, not 2^%d", q.Num, q.LogCQE, m.LogCQE)
	case q.Collapsed || q.Dead:
		return nil, control.Errorf(control.CodeState, "CQ %#06x: a collapsed queue, or one that overran, keeps its buffer", q.Num)
	}
	region, buf, err := c.At("CQ buffer", m.Buf, 1<<(m.LogSize+m.LogCQE))
	if err != nil {
		return nil, err
	}
	q.Room(1 << q.Log) // observes the consumer index
	unread := q.Unread()
	switch {
	case q.Ignore:
		// The device does not know what the client has polled, and entries may be overwritten. So
		// no entry is kept.
		unread = 0
	case unread >= 1<<q.Log:
		return nil, control.Errorf(control.CodeBusy, "CQ %#06x: full; poll it before it is resized", q.Num)
	case unread+1 > 1<<m.LogSize:
		return nil, control.Errorf(control.CodeInvalid, "CQ %#06x: 2^%d entries do not hold the %d that have not been polled, and one more",
			q.Num, m.LogSize, unread)
	}
	// The last entry of the old buffer reports the resize to the client. This entry takes an index
	// like any other. The client copies each unpolled entry to the new buffer at an index one
	// higher, so that the copies end directly before the device's next entry.
	c.Loop().Complete(q, 0, 0, 0, 0, 0, object.ResponderTail(0, 0, cqe.ResizeCQ), object.Quietly)
	q.Floor = q.Next - unread
	object.CountUser(-1, q.Region, q.Records)
	object.CountUser(1, region, q.Records)
	q.Region, q.Buf, q.Log, q.LogCQE = region, buf, uint(m.LogSize), uint(m.LogCQE)
	q.SetSeen() // by the new size
	recordCQ(c.Device, q, c.Watched, trace.KeyChanged)
	return &control.Empty{}, nil
}
