//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// patience is the time of each try of s.p, as timed sets it.
const patience = 4096 * time.Nanosecond << 4

// first is a rule's match of the first WQE of each queue.
var first = fault.Match{Nth: 1}

// timed sets the counts and the time of retries of s.p, and holds the clock.
func (s *scene) timed(retries uint8) {
	a := &s.p.q.Attr
	a.RNRRetry, a.RetryCount, a.Timeout = retries, retries, 4
	s.pass(0)
}

// later lets a time pass, and what is due then happen.
func (s *scene) later(d time.Duration) {
	s.pass(d)
	s.settle()
}

// injected requires that a WQE has failed, by a rule, and that a later one of the queue is flushed.
func (s *scene) injected(syndrome cqe.Syndrome, index uint16) {
	s.Helper()
	w := s.p.scq.one()
	s.failed(w, syndrome, index)
	r, _ := s.p.h.reasonOf(w)
	require.Equal(s, codes.FaultInjected.String(), r.Code)
	require.Contains(s, r.Text, "injected by rule ")
	require.Equal(s, control.StateERR, s.p.state())
	index = s.put()
	s.settle()
	s.failed(s.p.scq.one(), cqe.Flush, index)
}

// works requires that the queue does its work as if nothing had happened.
func (s *scene) works() {
	s.Helper()
	clear(s.far.mem)
	for range 2 {
		s.put()
	}
	s.settle()
	list := s.p.scq.all()
	require.Len(s, list, 2)
	for _, w := range list {
		require.Equal(s, cqe.StatusSuccess, w.Status)
	}
	require.Equal(s, s.local.mem[:8], s.far.mem[:8])
}

// A WQE waits as after RNR NAKs although a receive is posted, and then does its work; if there are more than
// rnr_retry, it fails after as many waits as with real NAKs.
func TestRuleRNR(t *testing.T) {
	wait := packet.RNRTimer(30)
	for _, c := range []struct {
		nak     int
		retries uint8
		waits   int
		fails   bool
	}{{2, 2, 2, false}, {1, 6, 1, false}, {12, 7, 12, false}, {3, 2, 2, true}, {1, 0, 0, true}} {
		everywhere(t, func(t *testing.T, s *scene) {
			s.timed(c.retries)
			set := s.setFaults(fault.Rule{Match: first, RNR: c.nak})
			s.q.recv(s.far.data(0, 64))
			index := s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
			s.settle()
			for range c.waits {
				s.p.scq.none()
				s.q.rcq.none()
				s.later(wait - time.Microsecond)
				s.p.scq.none()
				s.later(time.Microsecond)
			}
			require.EqualValues(t, 1, set.Acted(0))
			if c.fails {
				s.injected(cqe.RNRRetry, index)
				s.q.rcq.none()
				require.Equal(t, control.StateRTS, s.q.state())
				return
			}
			require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
			require.Equal(t, cqe.StatusSuccess, s.q.rcq.one().Status)
			require.Equal(t, s.local.mem[:8], s.far.mem[:8])
			s.works()
		})
	}
}

// tries returns the time that n tries take. On a link, later ones take longer.
func (s *scene) tries(n int) (list []time.Duration) {
	for i := range n {
		d := time.Duration(patience)
		if s.p.q.Wire != nil {
			d <<= min(i, 2)
		}
		list = append(list, d)
	}
	return list
}

// A request that is lost is sent again after each timeout; if it is lost more than retry_cnt times, it fails
// as if there were no responder. Nothing of it is executed before.
func TestRuleLosesRequests(t *testing.T) {
	for _, c := range []struct {
		lost    fault.Count
		retries uint8
		tries   int
		fails   bool
	}{{1, 7, 1, false}, {3, 3, 3, false}, {4, 3, 4, true}, {fault.All, 0, 1, true}, {fault.All, 7, 8, true}} {
		everywhere(t, func(t *testing.T, s *scene) {
			s.timed(c.retries)
			s.setFaults(fault.Rule{Match: first, LoseRequest: c.lost})
			clear(s.far.mem)
			index := s.put()
			s.settle()
			for _, d := range s.tries(c.tries) {
				s.p.scq.none()
				require.Equal(t, make([]byte, 8), s.far.mem[:8])
				s.later(d - time.Microsecond)
				s.p.scq.none()
				s.later(time.Microsecond)
			}
			if c.fails {
				s.injected(cqe.TransportRetry, index)
				require.Equal(t, make([]byte, 8), s.far.mem[:8])
				require.Equal(t, control.StateRTS, s.q.state())
				return
			}
			require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
			require.Equal(t, s.local.mem[:8], s.far.mem[:8])
			s.works()
		})
	}
}

// With timeout 0 a request that is lost is never sent again. The queue pair can still be stopped.
func TestRuleLosesRequestForever(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.timed(0)
		s.p.q.Attr.Timeout = 0
		s.setFaults(fault.Rule{Match: first, LoseRequest: 1})
		index := s.put()
		s.later(time.Hour)
		s.p.scq.none()
		s.p.toState(control.StateERR)
		s.settle()
		s.failed(s.p.scq.one(), cqe.Flush, index)
	})
}

// On unreliable transports a message that is lost stays lost: the sender completes, and nothing arrives.
func TestRuleLosesMessages(t *testing.T) {
	for _, rule := range []fault.Rule{{Match: first, LoseRequest: 1}, {Match: first, RNR: 5}} {
		for _, transport := range []uint8{control.QPTypeUC, control.QPTypeUD} {
			r := newRig(t, Config{})
			a, b := r.host("p"), r.host("q")
			p, q := pairOf(transport, a, b)
			s := &scene{rig: r, p: p, q: q, local: a.full(256, 1), far: b.full(256, 7)}
			s.setFaults(rule)
			q.recv(s.far.data(0, 128))
			clear(s.far.mem)
			send := func() {
				if transport == control.QPTypeUD {
					p.post(ctrl(wqe.OpSend), q.to(), s.local.data(0, 8))
				} else {
					p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
				}
				s.settle()
				require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
			}
			send()
			q.rcq.none()
			require.Equal(t, make([]byte, 128), s.far.mem[:128])
			send()
			require.Equal(t, cqe.StatusSuccess, q.rcq.one().Status)
		}
	}
}

// A request whose answer is lost is executed once, and completes as often later as the answer is lost. If
// that is more than retry_cnt times, it fails; what it has done stays.
func TestRuleLosesAnswers(t *testing.T) {
	for _, c := range []struct {
		lost    fault.Count
		retries uint8
		tries   int
		fails   bool
	}{{1, 7, 1, false}, {2, 2, 2, false}, {3, 2, 3, true}, {fault.All, 1, 2, true}} {
		for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpSend, wqe.OpAtomicFA, wqe.OpRDMARead} {
			everywhere(t, func(t *testing.T, s *scene) {
				s.timed(c.retries)
				s.setFaults(fault.Rule{Match: first, LoseAnswer: c.lost})
				s.q.recv(s.far.data(0, 64))
				binary.LittleEndian.PutUint64(s.far.mem[64:], 40)
				clear(s.far.mem[:64])
				before := append([]byte(nil), s.local.mem...)
				var index uint16
				switch op {
				case wqe.OpSend:
					index = s.p.post(ctrl(op), s.local.data(0, 8))
				case wqe.OpAtomicFA:
					index = s.p.post(ctrl(op), s.far.raddr(64), wqe.Atomic{SwapAdd: 2}, s.local.data(0, 8))
				default:
					index = s.p.post(ctrl(op), s.far.raddr(0), s.local.data(0, 8))
				}
				s.settle()
				for _, d := range s.tries(c.tries) {
					if s.p.q.Wire != nil {
						break // timers of links run out whenever there is nothing else to do
					}
					s.p.scq.none()
					s.executed(op, before)
					require.Equal(t, before, s.local.mem)
					s.later(d - time.Microsecond)
					s.p.scq.none()
					s.later(time.Microsecond)
				}
				s.executed(op, before)
				if c.fails {
					require.Equal(t, before, s.local.mem)
					s.injected(cqe.TransportRetry, index)
					require.Equal(t, control.StateRTS, s.q.state())
					return
				}
				w := s.p.scq.one()
				require.Equal(t, cqe.StatusSuccess, w.Status)
				require.Equal(t, index, w.Counter)
				switch op {
				case wqe.OpAtomicFA:
					require.EqualValues(t, 40, binary.LittleEndian.Uint64(s.local.mem))
				case wqe.OpRDMARead:
					require.Equal(t, make([]byte, 8), s.local.mem[:8])
				}
				s.works()
			})
		}
	}
}

// executed requires that the responder has executed a request once.
func (s *scene) executed(op wqe.Opcode, payload []byte) {
	s.Helper()
	switch op {
	case wqe.OpAtomicFA:
		require.EqualValues(s, 42, binary.LittleEndian.Uint64(s.far.mem[64:]))
	case wqe.OpRDMAWrite, wqe.OpSend:
		require.Equal(s, payload[:8], s.far.mem[:8])
	}
	want := 0
	if op == wqe.OpSend {
		want = 1
	}
	require.EqualValues(s, want, s.q.q.RQ.Done)
}

// In SQD, a request that was executed and whose answer is lost is finished; one that was lost waits for RTS.
func TestRuleInSQD(t *testing.T) {
	for _, rule := range []fault.Rule{{LoseAnswer: 2}, {LoseRequest: 2}} {
		s := newScene(t, Config{})
		next := s.p.h.events()
		s.timed(7)
		rule.Match = s.of(1)
		s.setFaults(rule)
		s.put()
		s.settle()
		s.p.toState(control.StateSQD)
		s.settle()
		s.p.scq.none()
		s.later(patience)
		s.p.scq.none()
		require.Equal(t, rule.LoseRequest != 0, len(happened(next)) == 1, "drained")
		s.later(patience)
		if rule.LoseRequest != 0 {
			s.p.scq.none()
			s.p.toState(control.StateRTS)
			s.settle()
			s.p.scq.none()
			s.later(patience)
		}
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		require.Empty(t, s.stalled())
	}
}

// If the rules end while the answer to an atomic is lost, it comes: also when the memory for its result has
// gone meanwhile, the responder does not execute the atomic again. Afterwards no rules are left.
func TestEndOfRulesWithALostAnswer(t *testing.T) {
	for _, gone := range []bool{false, true} {
		s := newScene(t, Config{})
		s.timed(7)
		set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{Match: s.of(1), LoseAnswer: 3}}})
		require.NoError(t, err)
		d := s.p.h.c.Device
		rules := d.SetFaults(set, nil)
		binary.LittleEndian.PutUint64(s.far.mem[64:], 40)
		index := s.p.post(ctrl(wqe.OpAtomicFA), s.far.raddr(64), wqe.Atomic{SwapAdd: 2}, s.local.data(0, 8))
		s.settle()
		s.p.scq.none()
		s.executed(wqe.OpAtomicFA, nil)
		if gone {
			s.p.h.dereg(s.local.key)
		}
		d.EndFaults(rules)
		s.settle()
		s.executed(wqe.OpAtomicFA, nil)
		require.Nil(t, s.p.q.Faults)
		if gone {
			s.failed(s.p.scq.one(), cqe.LocalProtection, index)
			continue
		}
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		require.EqualValues(t, 40, binary.LittleEndian.Uint64(s.local.mem))
		s.works()
	}
}
