//go:build linux && (amd64 || arm64)

package request

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// createDCT makes a queue pair that has a PD, an SRQ and a CQ, and no rings. The queues that the device needs
// of every queue pair are empty and in the device's own memory, as for a target of XRC. No completion goes to
// the CQ of the send queue.
func createDCT(c *Client, m *control.DCT, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	p, s, into := c.PDs[m.PDN], c.SRQs[m.SRQN], c.CQs[m.CQN]
	switch {
	case p == nil:
		return nil, object.NotFound("PD", m.PDN)
	case s == nil:
		return nil, object.NotFound("SRQ", m.SRQN)
	case into == nil:
		return nil, object.NotFound("CQ", m.CQN)
	case s.XRCD != nil:
		return nil, control.Errorf(control.CodeInvalid, "DCT: SRQ %#06x is for targets of an XRC domain", m.SRQN)
	case into.Dead:
		return nil, control.Errorf(control.CodeState, "DCT: CQ %#06x has overrun; nothing is written to it any more", into.Num)
	case m.UserIndex > 0xffffff:
		return nil, control.Errorf(control.CodeInvalid, "DCT: user index %#x; 24 bits are possible", m.UserIndex)
	}
	if _, err := c.take("queue pairs", len(c.QPs), c.Device.Settings.Limits.QPs,
		object.QPCost); err != nil {
		return nil, err
	}
	rec := make([]byte, 8)
	q := &object.QP{Client: c.Client, PD: p, UIDX: m.UserIndex, Transport: control.QPTypeDCT,
		DC: &object.Dynamic{Key: m.Key},
		SQ: object.SendQueue{Blocks: object.OneBlock(), CQ: new(object.CQ), Record: shm.BE32At(rec, 4)},
		RQ: object.ReceiveQueue{CQ: into, SRQ: s, Record: shm.BE32At(rec, 0)},
	}
	q.Num = newQPN(c.Device)
	c.addQP(q)
	p.Users++
	s.Users++
	q.CountCQs(1)
	return &control.QPN{QPN: q.Num}, nil
}

// ResetStream makes a stream that has failed usable again. The stream's DCI has to be in RTS.
func (c *Client) ResetStream(qpn uint32, stream uint16) (err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return object.ErrClosed
	}
	c.do(mailbox.MakesWork, "reset_stream", func() {
		q := c.QPs[qpn]
		switch {
		case q == nil:
			err = object.NotFound("QP", qpn)
			return
		case q.Transport != control.QPTypeDCI:
			err = control.Errorf(control.CodeInvalid, "QP %#06x is no DCI; it has no streams", qpn)
			return
		case q.Attr.State != control.StateRTS:
			err = control.Errorf(control.CodeState, "QP %#06x: in state %s, not RTS", qpn, states.Name(q.Attr.State))
			return
		}
		i := slices.Index(q.DC.Errored, stream)
		if i < 0 {
			err = control.Errorf(control.CodeState, "QP %#06x: stream %d has not failed", qpn, stream)
			return
		}
		q.DC.Errored = slices.Delete(q.DC.Errored, i, i+1)
	})
	return err
}
