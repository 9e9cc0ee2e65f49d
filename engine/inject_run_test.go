package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Rules act as in tests that step the device while its threads run, and sleep as soon as there is nothing to
// do: what waits goes on in time, and what is ordered between two steps is done.
func TestRulesWhileThreadsSleep(t *testing.T) {
	const short = fault.Duration(20 * time.Millisecond)
	for name, c := range map[string]struct {
		rule fault.Rule
		want cqe.Syndrome
	}{
		"doorbell":     {fault.Rule{Doorbell: fault.Doorbell{Delay: short}}, unharmed},
		"stall":        {fault.Rule{Stall: short}, unharmed},
		"lose-request": {fault.Rule{LoseRequest: 2}, unharmed},
		"lose-answer":  {fault.Rule{LoseAnswer: 2}, unharmed},
		"gives up":     {fault.Rule{LoseRequest: fault.All}, cqe.TransportRetry},
		"deregister":   {fault.Rule{Deregister: fault.Remote}, cqe.RemoteAccess},
		"disconnect":   {fault.Rule{Disconnect: true}, cqe.TransportRetry},
	} {
		for shards, newRig := range map[string]func(testing.TB, Config) *rig{"one": newRig, "two": newShards} {
			t.Run(name+", shards: "+shards, func(t *testing.T) {
				r := newRig(t, Config{})
				a, b := r.host("a"), r.host("b")
				p, q := pair(a, b)
				s := &scene{rig: r, p: p, q: q, local: a.full(256, 1), far: b.full(256, 7)}
				p.q.Attr.Timeout, p.q.Attr.RetryCount = 8, 3 // about a millisecond for each try
				c.rule.Match = s.of(1)
				s.setFaults(c.rule)
				stop := r.start()
				defer stop()
				p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
				require.Equal(t, c.want, p.scq.await().Syndrome)
			})
		}
	}
}

// A client dies while the threads run.
func TestRuleKillsWhileThreadsRun(t *testing.T) {
	r := newShards(t, Config{})
	p, q := pair(r.host("a"), r.host("b"))
	s := &scene{rig: r, p: p, q: q, local: p.h.full(256, 1), far: q.h.full(256, 7)}
	s.setFaults(fault.Rule{Match: s.of(1), Kill: true})
	stop := r.start()
	defer stop()
	s.put()
	r.until("the client's death", func() (gone bool) {
		r.d.runner.Do(func() { gone = r.e.QPs[p.num] == nil })
		return gone
	})
}
