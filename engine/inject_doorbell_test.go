//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A doorbell that is dropped is not seen. The next one announces the WQEs of both.
func TestRuleDropsADoorbell(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.pass(0)
		set := s.setFaults(fault.Rule{Match: fault.Match{Nth: 2}, Doorbell: fault.Doorbell{Drop: true}})
		s.put()
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		dropped := s.put()
		s.settle()
		s.later(time.Hour)
		s.p.scq.none()
		later := s.put()
		s.settle()
		list := s.p.scq.all()
		require.Len(t, list, 2)
		require.Equal(t, []uint16{dropped, later}, []uint16{list[0].Counter, list[1].Counter})
		require.EqualValues(t, 1, set.Acted(0))
		s.works()
	})
}

// A doorbell that is late is seen after its time, or with the next doorbell.
func TestRuleDelaysADoorbell(t *testing.T) {
	const late = 5 * time.Millisecond
	everywhere(t, func(t *testing.T, s *scene) {
		s.pass(0)
		s.setFaults(fault.Rule{Match: fault.Match{Every: 2}, Doorbell: fault.Doorbell{Delay: fault.Duration(late)}})
		s.put()
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		s.put()
		s.settle()
		s.later(late - time.Microsecond)
		s.p.scq.none()
		s.later(time.Microsecond)
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		s.put() // the third
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		s.put()
		s.settle()
		s.p.scq.none()
		s.put()
		s.settle()
		require.Len(t, s.p.scq.all(), 2)
		require.Empty(t, s.stalled())
	})
}

// A doorbell that is seen never is seen when its rule goes, and its WQE is flushed when the queue stops.
func TestEndOfADroppedDoorbell(t *testing.T) {
	for _, bell := range []fault.Doorbell{{Drop: true}, {Delay: fault.Forever}} {
		everywhere(t, func(t *testing.T, s *scene) {
			set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{Doorbell: bell}}})
			require.NoError(t, err)
			d := s.p.h.c.Device
			r := d.SetFaults(set, nil)
			s.put()
			s.settle()
			s.p.scq.none()
			d.EndFaults(r)
			s.settle()
			require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)

			r = d.SetFaults(set, nil)
			index := s.put()
			s.settle()
			s.p.scq.none()
			s.p.toState(control.StateERR)
			s.settle()
			s.failed(s.p.scq.one(), cqe.Flush, index)
			d.EndFaults(r)
		})
	}
}

// Work requests that SQE has flushed are not executed when their doorbell was delayed, and later ones are.
func TestRuleDelaysADoorbellInSQE(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("p"), r.host("q")
	p, q := pairOf(control.QPTypeUD, a, b)
	s := &scene{rig: r, p: p, q: q, local: a.full(256, 1), far: b.full(256, 7)}
	set := s.setFaults(fault.Rule{Match: fault.Match{Nth: 2}, Doorbell: fault.Doorbell{Delay: fault.Forever}})
	bad := s.local.data(0, 8)
	bad.LKey ^= 1
	post := func(d wqe.Data) {
		p.post(ctrl(wqe.OpSend), q.to(), d)
		s.settle()
	}
	post(bad)
	require.Equal(t, control.StateSQE, p.state())
	for range 2 {
		post(s.local.data(0, 8))
	}
	p.modify(control.QPAttr{QPN: p.num, Mask: control.AttrState | control.AttrCurState,
		State: control.StateRTS, CurState: control.StateSQE})
	s.settle()
	require.EqualValues(t, 1, set.Acted(0))
	require.Equal(t, control.StateRTS, p.state())
	post(s.local.data(0, 8))
	var got []cqe.Syndrome
	for _, w := range p.scq.all() {
		got = append(got, w.Syndrome)
	}
	require.Equal(t, []cqe.Syndrome{cqe.LocalProtection, cqe.Flush, cqe.Flush, 0}, got)
}
