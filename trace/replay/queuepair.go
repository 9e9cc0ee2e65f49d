//go:build linux && (amd64 || arm64)

package replay

import (
	"fmt"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// types are the types of queue pairs in requests.
var types = map[trace.Transport]uint8{
	trace.RC: control.QPTypeRC, trace.UC: control.QPTypeUC, trace.UD: control.QPTypeUD,
}

// queuePair makes a queue pair, or changes its state and attributes.
func (r *replayer) queuePair(e *trace.Event) error {
	info, err := trace.ParseQueueInfo(e.Data)
	setup, _ := trace.ParseQueueSetup(e.Data)
	c := r.owner(e.Value)
	if err != nil || c == nil || r.plan.out[e.Queue] != "" {
		return err
	}
	q := r.queues[e.Queue]
	if q == nil {
		q = &queue{number: e.Queue, client: c, transport: trace.Transport(e.Count), info: info, setup: setup}
		if err := r.create(q); err != nil {
			r.plan.leaveOut(e.Queue, fmt.Sprintf("it could not be made: %v", err))
			return nil
		}
		r.queues[e.Queue] = q
	}
	if err := r.modify(q, trace.State(e.Index), &info, &setup); err != nil {
		r.differ(name(q), fmt.Sprintf("cannot go to %v: %v", trace.State(e.Index), err))
	}
	return nil
}

func (r *replayer) create(q *queue) (err error) {
	c, s := q.client, &q.setup
	pd, err := c.pd(s.PD)
	if err != nil {
		return err
	}
	m := &control.QP{PDN: pd, SendCQN: q.info.SendCQ, RecvCQN: q.info.RecvCQ, UserIndex: s.UserIndex,
		Type: types[q.transport], SRQN: q.info.SRQ, NoReceive: 1, Scatter: s.Scatter, UAR: c.uar}
	if s.Flags&trace.Signed != 0 {
		m.SignatureOn = 1
	}
	if s.Flags&trace.Managed != 0 {
		m.Managed = 1
	}
	m.Doorbells = uint8(s.Doorbells)
	if s.Flags&trace.NoSends != 0 {
		m.NoSend = 1
	} else {
		m.LogSQ, err = log2(q.info.SendBlocks)
		if err != nil {
			return err
		}
		q.ring, m.SQ, err = c.take(wqe.BlockSize << m.LogSQ)
		if err != nil {
			return err
		}
	}
	if s.Flags&trace.OwnReceives != 0 {
		m.NoReceive, m.LogRQStride = 0, s.LogStride
		m.LogRQ, err = log2(q.info.RecvEntries)
		if err != nil || s.LogStride > 11 {
			return fmt.Errorf("%d receives of 2^%d bytes", q.info.RecvEntries, s.LogStride)
		}
		q.receives, m.RQ, err = c.take(1 << (m.LogRQ + m.LogRQStride))
		if err != nil {
			return err
		}
	}
	if q.info.SRQ != 0 {
		q.srq = r.srqs[q.info.SRQ]
		if q.srq == nil {
			return fmt.Errorf("its SRQ 0x%x is not in the trace", q.info.SRQ)
		}
	}
	q.record, m.DBRec, err = c.take(8)
	if err != nil {
		return err
	}
	var ans control.QPN
	r.d.Choose(nic.QP, q.number)
	if err := c.call(control.OpCreateQP, m, &ans); err != nil {
		return err
	}
	if ans.QPN != q.number {
		return errTaken
	}
	return nil
}

// log2 returns the logarithm of the size of a queue, which is a power of two.
func log2(n uint32) (uint8, error) {
	for i := range uint8(17) {
		if n == 1<<i {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%d entries; powers of two up to 65536 are possible", n)
}

func (r *replayer) endQueue(number uint32) error {
	q := r.queues[number]
	if q == nil {
		return nil
	}
	delete(r.queues, number)
	return q.client.call(control.OpDestroyQP, &control.QPN{QPN: number}, &control.Empty{})
}
