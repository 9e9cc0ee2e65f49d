//go:build linux && (amd64 || arm64)

package transport

import (
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/packet"
)

// A stranger who can forge the peer's address may try one PSN after another, until a packet has the expected
// one. The guard of a path (object.PathGuard) counts packets with PSNs that the peer would not use. If there
// are too many, the alarm begins, and the path is closed most of the time: its packets are then dropped.

// PathReach is the largest distance from the expected PSN that a packet of the peer can have, because it was
// repeated, or because packets before it were lost or overtaken. A requester has at most so many packets on
// the way: 8 MiB in packets of 256 bytes (losslessWindow). Only READs of more than 32 MiB by other devices
// have larger distances.
const PathReach = 1 << 15

// dropShutOut is called during an alarm for each packet that has come for q. It reports whether the packet is
// dropped, because the path is closed. It opens the path, or ends the alarm, if it is time to.
func (sh *receiver) dropShutOut(p *object.Port, q *object.QP, info *packet.Info) bool {
	w := q.Wire
	g, now := w.Guard, sh.Now()
	if !g.Requests.Doubtful(now) && !g.Answers.Doubtful(now) {
		g.SetAlarm(false)
		sh.openPath(g, false)
		sh.openPath(g, true)
		return false
	}
	h := g.Direction(info.Response)
	if !h.HasClosed() {
		return false
	}
	if !h.StaysClosed(now) {
		sh.openPath(g, info.Response)
		return false
	}
	p.Stats.ShutOut++
	if d := packet.DiffPSN(p.BTH.PSN, w.In.PSN); !info.Response && -PathReach <= d && d <= PathReach {
		w.In.Missed = true
	}
	return true
}

// openPath opens a half of the path: that of answers, or that of requests. Requests that were dropped may
// have been those of the peers, so each peer whose packet may be missing gets a NAK for the packet that is
// expected. A peer that has no packets on the way ignores the NAK.
func (sh *receiver) openPath(g *object.PathGuard, answers bool) {
	g.Direction(answers).Open()
	if answers {
		return
	}
	for _, w := range g.Wires {
		if q := w.Q; w.In.Missed && q.Listens() && w.In.Fatal == 0 {
			w.In.Silent = sh.sendNAK(q, packet.NAKSequence)
		}
		w.In.Missed = false
	}
}

// For nearTime after a packet with a PSN near the expected one, a packet with the expected PSN may be the
// next packet of a scan. A scan of fewer than 100 packets a second would take two days.
const nearTime = 10 * time.Millisecond

// dropSuspect reports whether a packet with the expected PSN is dropped as part of a scan, because during an
// alarm packets with PSNs near it came just before. If it is a request, a NAK goes to the peer. If the peer
// did send the packet, it then sends it again, before any others.
func (sh *receiver) dropSuspect(p *object.Port, q *object.QP, answers bool) bool {
	w := q.Wire
	near := w.Near(answers)
	if !w.Guard.Alarm || sh.Now() >= *near {
		return false
	}
	*near = 0
	p.Stats.ShutOut++
	if !answers {
		w.In.Silent = sh.sendNAK(q, packet.NAKSequence)
	}
	return true
}

// countStray counts a packet that does not have the expected PSN, and reports whether the packet is dropped.
// It is dropped if it closes the path. While there is no scan, only packets far from the expected PSN count.
// During a scan all such packets count, because those near the expected PSN may be the last before the scan
// finds it.
func (sh *receiver) countStray(p *object.Port, q *object.QP, far, answers bool) bool {
	w := q.Wire
	h, now := w.Guard.Direction(answers), sh.Now()
	if !far && !h.Doubtful(now) {
		return false
	}
	w.Strays++
	// After a NAK, requests with later PSNs are no sign of a scan: the peer sent them before it got the NAK.
	if !far && (answers || !w.In.Silent || packet.DiffPSN(p.BTH.PSN, w.In.PSN) < 0) {
		*w.Near(answers) = now + clock.Cycles(nearTime)
	}
	if h.IsOver(now) {
		h.Reported = false
	}
	if !h.Count(now) {
		return false
	}
	if !far {
		p.Stats.ShutOut++ // the caller has counted a packet that is far
	}
	if !w.Guard.Alarm {
		w.Guard.SetAlarm(true)
	}
	if h.Reported {
		return true
	}
	h.Reported = true
	p.Stats.Scans++
	what, expected, cost := "requests", w.In.PSN, "requests of this path are dropped most of the time, the peer's too, until that ends"
	if answers {
		what, expected, cost = "answers", w.Out.UNA, "answers on this path are dropped most of the time, the peer's too, until that ends"
	}
	n, since := h.Counted(now)
	sh.ExplainQueue(q, codes.LinkScan, "%d packets with %s have come within %v (%d a second) from the address of peer QP %#06x on link %s, with PSNs that this peer would not use, %d of them to this queue pair, which is at PSN %#06x: somebody tries PSNs. %s",
		n, what, since.Round(time.Millisecond), perSecond(n, since), q.Attr.DestQPN, p.Settings.Name,
		w.Strays, expected, cost)
	return true
}

// perSecond returns the rate of n events in the time d, in events a second.
func perSecond(n uint64, d time.Duration) uint64 {
	return uint64(float64(n) / max(d, time.Millisecond).Seconds())
}

// Doubted reports whether a request that q cannot execute is dropped, as if it had been lost. It is dropped
// during a scan, because it may belong to the scan, and a NAK would end the connection. If the peer did send
// the request, the peer gets no answer, and its retries run out.
func (sh *receiver) Doubted(q *object.QP) bool {
	if q.Wire == nil || !q.Reliable() || !q.Wire.Guard.Requests.Doubtful(sh.Now()) {
		return false
	}
	q.Wire.Port.Stats.Doubted++
	return true
}
