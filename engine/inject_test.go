//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// setFaults makes the device of p's host obey rules until the end of the test.
func (s *scene) setFaults(rules ...fault.Rule) *fault.Set {
	s.Helper()
	set, err := fault.NewSet(&fault.Rules{Seed: 7, Rules: rules})
	require.NoError(s, err)
	d := s.p.h.c.Device
	r := d.SetFaults(set, nil)
	s.Cleanup(func() { d.EndFaults(r) })
	return set
}

// pass holds the clocks of all shards, and lets a time pass. The first pass should be before the rules are
// set.
func (s *scene) pass(d time.Duration) {
	for _, l := range s.d.runner.Loops {
		if l.Hooks.HeldClock == 0 {
			holdClock(l)
		}
		l.Hooks.HeldClock += clock.Cycles(d) + 1
	}
}

// put posts a WRITE of 8 bytes with a completion.
func (s *scene) put() uint16 {
	return s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
}

// The third WRITE of a queue fails as a rule says, everywhere. Nothing of it is executed, and the reason says
// which rule it was.
func TestRuleFailsAWQE(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		vendor := fault.Number(0x77)
		set := s.setFaults(fault.Rule{Name: "third", Match: fault.Match{Opcode: fault.Only(wqe.OpRDMAWrite), Nth: 3},
			Complete: &fault.Complete{Syndrome: fault.Syndrome(cqe.RemoteAccess), Vendor: &vendor}})
		for range 2 {
			s.put()
			s.settle()
			require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		}
		clear(s.far.mem)
		bad := s.put()
		s.settle()
		w := s.p.scq.one()
		s.failed(w, cqe.RemoteAccess, bad)
		require.EqualValues(t, vendor, w.VendorErr)
		require.Equal(t, make([]byte, 8), s.far.mem[:8])
		r, _ := s.p.h.reasonOf(w)
		require.Equal(t, codes.FaultInjected.String(), r.Code)
		require.Equal(t, `injected by rule "third" (completes with remote-access, vendor 0x77)`, r.Text)
		require.EqualValues(t, 1, set.Acted(0))
	})
}

// A WQE waits as long as a rule says, and then does its work.
func TestRuleStallsAQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.pass(0)
		s.setFaults(fault.Rule{Match: fault.Match{Nth: 1}, Stall: fault.Duration(5 * time.Millisecond)})
		s.put()
		s.settle()
		s.p.scq.none()
		s.pass(5*time.Millisecond - time.Microsecond)
		s.settle()
		s.p.scq.none()
		s.pass(time.Microsecond)
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		s.put()
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
	})
}

// The end of other rules changes nothing for a WQE that waits, or whose answers are lost.
func TestEndOfOtherRules(t *testing.T) {
	for _, rule := range []fault.Rule{{Stall: fault.Forever}, {LoseAnswer: fault.All}} {
		everywhere(t, func(t *testing.T, s *scene) {
			if s.p.q.Wire != nil && rule.LoseAnswer != 0 {
				return // the retries of a link run out
			}
			rule.Match = s.of(1)
			set := s.setFaults(rule)
			other, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{Match: s.of(99), RNR: 1}}})
			require.NoError(t, err)
			d := s.p.h.c.Device
			r := d.SetFaults(other, nil)
			s.put()
			s.settle()
			s.p.scq.none()
			d.EndFaults(r)
			s.settle()
			s.p.scq.none()
			require.EqualValues(t, 1, set.Acted(0))
		})
	}
}

// Times that are longer than the clock can count do not end at once.
func TestRulesOfVeryLongTimes(t *testing.T) {
	const long = fault.Duration(250 * 365 * 24 * time.Hour)
	everywhere(t, func(t *testing.T, s *scene) {
		set := s.setFaults(fault.Rule{Match: s.of(1), Stall: long},
			fault.Rule{Match: fault.Match{After: long}, GID: fault.ChangeGID})
		s.put()
		s.settle()
		s.p.scq.none()
		require.EqualValues(t, 1, set.Acted(0))
		require.Zero(t, set.Acted(1))
	})
}

// If its rule goes, a WQE that waits for ever goes on.
func TestEndOfRulesEndsAStall(t *testing.T) {
	s := newScene(t, Config{})
	set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{Stall: fault.Forever}}})
	require.NoError(t, err)
	d := s.p.h.c.Device
	r := d.SetFaults(set, nil)
	s.put()
	s.settle()
	s.p.scq.none()
	d.EndFaults(r)
	s.settle()
	require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
	require.Nil(t, s.p.q.Faults)
	require.Equal(t, *watched, s.p.q.Aside)
	require.True(t, s.p.q.FastPath)
}
