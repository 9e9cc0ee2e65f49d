package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A step serves several requests, but not several that mark large rings.
func TestRequestsThatMarkRingsTakeTurns(t *testing.T) {
	regionSize = 4 << 20
	defer func() { regionSize = hostSize }()
	r := newRig(t, Config{})
	const requests = 16
	for _, row := range []struct {
		doorbells, log uint8
		perStep        int
	}{
		{control.DoorbellRecord, 15, 8},
		{control.DoorbellGuarded, 4, 8},
		{control.DoorbellGuarded, 11, 2},
		{control.DoorbellGuarded, 15, 1},
	} {
		a := r.host("a")
		p := a.qp(control.QP{UAR: rungPage, Doorbells: row.doorbells, NoReceive: 1, LogSQ: row.log}, a.cq(control.CQ{LogSize: 4}), nil)
		served := 0
		m := &r.e.Mail
		for range requests {
			m.Queue = append(m.Queue, &mailbox.Mail{
				F:    func() { p.toState(control.StateRST); served++ },
				Done: make(chan struct{}),
			})
		}
		m.Waiting.Store(true)
		for served < requests {
			before := served
			r.e.Step()
			require.Equal(t, row.perStep, served-before, "doorbells %d, 2^%d blocks", row.doorbells, row.log)
		}
		require.False(t, m.Waiting.Load())
	}
}

// A transition to RST is refused if the guarded ring has lost its memory, and the queue pair stays as it was.
func TestResetWithoutRing(t *testing.T) {
	s := rung(t, Config{}, control.DoorbellGuarded)
	a := s.p.h
	mem, at, shrink := a.trusted(4096)
	rec, recAt := a.take(8)
	var ans control.QPN
	a.call(control.OpCreateQP, &control.QP{PDN: a.pd, SendCQN: s.p.scq.num, SQ: at, DBRec: recAt, LogSQ: 4,
		NoReceive: 1, UAR: rungPage, Doorbells: control.DoorbellGuarded}, &ans)
	p := &end{h: a, scq: s.p.scq, sq: mem.Bytes()[:16*wqe.BlockSize], rec: rec, num: ans.QPN, q: a.e.QPs[ans.QPN]}
	p.up(p)
	p.write(ctrl(wqe.OpNop))
	shm.BE32At(p.rec, 4).Publish(1)
	s.settle()
	require.Equal(t, p.num, s.p.scq.one().QPN)
	was := p.q.Attr
	shrink(0)
	a.refused(control.CodeMemory, "", control.OpModifyQP, &control.QPAttr{QPN: p.num, Mask: control.AttrState, State: control.StateRST}, nil)
	require.Equal(t, was, p.q.Attr)
	require.EqualValues(t, 1, p.q.SQ.Done)
	require.EqualValues(t, 1, p.q.Source.Admitted())
	shrink(4096)
	p.reset(p)
	p.write(ctrl(wqe.OpNop))
	shm.BE32At(p.rec, 4).Publish(1)
	s.settle()
	require.Equal(t, p.num, s.p.scq.one().QPN)
}
