package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A survivor has a queue pair with each of some peers, each over a link of its own.
type survivor struct {
	*rig
	ends  []*end                  // of the survivor
	far   []*key                  // of the peers
	near  []*transport.PortHandle // of the survivor
	away  []*transport.PortHandle // of the peers
	local *key
}

const (
	peersOfOne = 16
	dyingPeers = 4
	postedEach = 200 // WRITEs that are under way to each peer that dies
	mostOfOne  = 8   // of its WQEs are executed in a step
)

func newSurvivor(t *testing.T) *survivor {
	roomy(t)
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	s := &survivor{rig: newRig(t, Config{Burst: mostOfOne})}
	a, b := s.host("survivor"), s.host("peers")
	s.local = a.full(256, 1)
	queue := control.QP{Type: control.QPTypeRC, LogSQ: 8}
	for range peersOfOne {
		s.cable = nil // a link of its own
		ca, cb := a.cq(control.CQ{LogSize: 9}), b.cq(control.CQ{LogSize: 9})
		p, q := a.qp(queue, ca, ca), b.qp(queue, cb, cb)
		p.up(q)
		q.up(p)
		p.q.Attr.Timeout = 14 // 67 ms
		s.ends, s.far = append(s.ends, p), append(s.far, b.full(256, 7))
		s.near = append(s.near, s.cable.ports[p.side()])
		s.away = append(s.away, s.cable.ports[1-p.side()])
	}
	holdClock(s.e)
	return s
}

// pace lets the survivor write to the peers that live, one WRITE after the other, for a time of the device's
// clock. It returns in how many steps the slowest of the WRITEs was complete, and the most that one step did
// for the others: packets that left, and completions.
func (s *survivor) pace(d time.Duration) (slowest, most int) {
	const each = 50 * time.Microsecond // each step takes this time
	live := s.ends[dyingPeers:]
	for n := range int(d / each / 4) {
		i := n % len(live)
		p := live[i]
		p.post(ctrl(wqe.OpRDMAWrite), s.far[dyingPeers+i].raddr(0), s.local.data(0, 256))
		done := false
		for steps := 1; !done || steps <= 4; steps++ {
			before := s.sentToTheDying()
			s.e.Hooks.HeldClock += clock.Cycles(each)
			s.e.Step()
			work := int(s.sentToTheDying() - before)
			for _, p := range s.ends[:dyingPeers] {
				work += len(p.scq.all())
			}
			most = max(most, work)
			for _, c := range p.scq.all() {
				require.Equal(s, cqe.StatusSuccess, c.Status)
				done, slowest = true, max(slowest, steps)
			}
			require.Less(s, steps, 1000, "a WRITE to a peer that lives is complete")
		}
	}
	return slowest, most
}

func (s *survivor) sentToTheDying() (n uint64) {
	for _, p := range s.near[:dyingPeers] {
		n += p.Port.Settings.Send.Sent()
	}
	return n
}

// Four of sixteen peers die in one moment, with work under way to all of them. Neither their silence, nor
// that their links go down and are taken away, nor the failure of what was posted costs the others a step: a
// WRITE to a peer that lives is complete in as many steps as before. No step does more for the dead than what
// the budget of their queue pairs is.
func TestDeathOfPeersHoldsNobodyUp(t *testing.T) {
	s := newSurvivor(t)
	before, none := s.pace(20 * time.Millisecond)
	require.Zero(t, none)
	for i, p := range s.ends[:dyingPeers] {
		require.NoError(t, s.away[i].Close()) // nobody answers any more
		for range postedEach {
			p.write(ctrl(wqe.OpRDMAWrite), s.far[i].raddr(0), s.local.data(0, 256))
		}
		p.ring()
	}
	budget := dyingPeers * mostOfOne
	check := func(what string, d time.Duration) {
		t.Helper()
		slowest, most := s.pace(d)
		require.Equal(t, before, slowest, what)
		require.LessOrEqual(t, most, budget, what)
		t.Logf("%s: %d steps, at most %d packets and completions of the dying in a step", what, slowest, most)
	}
	check("they are silent", 100*time.Millisecond)
	for _, p := range s.near[:dyingPeers] {
		p.SetUp(false)
	}
	check("their links are down", 20*time.Millisecond)
	for _, p := range s.near[:dyingPeers] {
		require.NoError(t, p.Close())
	}
	check("their links are gone", 500*time.Millisecond)
	for _, p := range s.ends[:dyingPeers] {
		require.Equal(t, control.StateERR, p.state())
	}
}
