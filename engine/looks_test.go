package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of an end that gets no processor, so that it cannot take the answers of its peer.

// attributeTime is the time of the attribute timeout 14, which the ends of a network have.
const attributeTime = 4096 * time.Nanosecond << 14

// A looking is a port whose carrier looks at its sockets when the test says so.
type looking struct {
	wanted uint32
	runs   bool
}

func (l *looking) port() nic.PortConfig {
	cfg := roceLike()
	cfg.Look = func(n uint32) bool {
		l.wanted = n
		return l.runs
	}
	return cfg
}

// answered posts a WRITE of p, which gives up after one timeout, and lets the network work until the answer
// of q is on the way. It returns the number of the port of q.
func (n *network) answered(p, q *end) (other int) {
	n.r.Helper()
	p.q.Attr.RetryCount = 0
	from, to := p.h.full(100, 1), q.h.full(100, 7)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 100))
	if p.q.Wire.Port == n.ports[0].Port {
		other = 1
	}
	n.run(time.Second, func() bool { return len(n.ways[other].flights) > 0 })
	return other
}

// stop lets time pass in which the engine does not run.
func (n *network) stop(d time.Duration) { n.r.e.Hooks.HeldClock += clock.Cycles(d) }

// sendsNothing reports whether all that p has sent has completed.
func (p *end) sendsNothing() bool {
	return p.q.Wire == nil || p.q.Wire.Out.First == p.q.Wire.Out.Last
}

// stepsUntil lets the engine take steps with a time between two, in which no packet arrives. It returns how
// many there were before the first completion of p.
func (n *network) stepsUntil(p *end, most int, apart time.Duration) int {
	for i := range most {
		n.r.e.Step()
		if p.sendsNothing() {
			return i
		}
		n.stop(apart)
	}
	return most
}

// Answers that wait in a socket until the carrier runs are no silence of the peer.
func TestAnswersInASocketAreFound(t *testing.T) {
	var l looking
	n, p, q := newNetwork(t, l.port(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	other := n.answered(p, q)
	n.stop(10 * time.Second)
	require.Equal(t, 500, n.stepsUntil(p, 500, time.Millisecond), "the carrier has not run")
	require.NotZero(t, l.wanted)
	n.arrive(other)
	l.runs = true
	n.completed(p, 1)
}

// A peer is probed only after a look at what has come: before that, its answer may wait in a socket. A
// carrier that does not complete a look delays the first probe by the time after which the peer counts as
// silent.
func TestProbeWaitsForALook(t *testing.T) {
	for _, looks := range []bool{true, false} {
		var l looking
		n, p, q := newNetwork(t, l.port(), rackRate, rackDelay, 0, 0)
		n.rest(5 * time.Millisecond)
		other := n.answered(p, q)
		path := p.q.Wire.Losses
		const apart = 20 * transport.TimerTurns // so many steps in the time
		silence := clock.Duration(path.RoundTrip.Silence())
		n.stepsUntil(p, 3*apart/2, silence/apart)
		require.NotZero(t, l.wanted)
		require.Zero(t, path.Timeouts)
		if looks {
			n.arrive(other)
			l.runs = true
			n.completed(p, 1)
			require.Zero(t, path.Timeouts)
			continue
		}
		n.stepsUntil(p, apart, silence/apart)
		require.EqualValues(t, 1, path.Timeouts)
	}
}

// When both ends stop, as on a computer that is suspended, no time has passed for the peer.
func TestStopOfBothEndsIsNoTimeout(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	lose := n.lose
	n.lose = func(int, *heldPacket) bool { return true } // as by a device that is switched off
	n.answeredNot(p, q)
	n.lose = lose
	n.stop(10 * time.Second)
	n.completed(p, 1)
}

// answeredNot is answered, but the packet is lost.
func (n *network) answeredNot(p, q *end) {
	n.r.Helper()
	p.q.Attr.RetryCount = 0
	from, to := p.h.full(100, 1), q.h.full(100, 7)
	lost := n.lost
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 100))
	n.run(time.Second, func() bool { return n.lost > lost })
}

// A peer that is silent is found in the usual time if this end runs.
func TestSilenceEndsInTime(t *testing.T) {
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	n.lose = func(int, *heldPacket) bool { return true }
	begun := n.now()
	n.answeredNot(p, q)
	n.run(time.Second, p.sendsNothing)
	took := clock.Duration(n.now() - begun)
	require.GreaterOrEqual(t, took, attributeTime)
	require.Less(t, took, attributeTime+time.Millisecond)
	require.Equal(t, cqe.TransportRetry, p.scq.one().Syndrome)
}

// A carrier that never completes a look, because other peers flood its socket, delays the end for a second.
func TestLookThatNeverCompletes(t *testing.T) {
	var l looking
	n, p, q := newNetwork(t, l.port(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	n.lose = func(int, *heldPacket) bool { return true }
	begun := n.now()
	n.answeredNot(p, q)
	n.run(3*time.Second, p.sendsNothing)
	took := clock.Duration(n.now() - begun)
	require.NotZero(t, l.wanted)
	require.GreaterOrEqual(t, took, attributeTime+time.Second)
	require.Less(t, took, attributeTime+time.Second+5*time.Millisecond)
	require.Equal(t, cqe.TransportRetry, p.scq.one().Syndrome)
}

// An engine that is always slow, and a carrier that never completes a look, come to an end, too.
func TestSlowEngineComesToAnEnd(t *testing.T) {
	var l looking
	n, p, q := newNetwork(t, l.port(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	n.lose = func(int, *heldPacket) bool { return true }
	n.answeredNot(p, q)
	took := n.stepsUntil(p, 1000, 200*time.Millisecond)
	t.Logf("%d steps", took)
	require.Less(t, took, 50*transport.TimerTurns, "two waits for a look, of about 20 visits each")
	require.Equal(t, cqe.TransportRetry, p.scq.one().Syndrome)
}
