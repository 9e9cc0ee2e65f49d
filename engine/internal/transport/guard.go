//go:build linux && (amd64 || arm64)

package transport

import (
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/packet"
)

// PathReach is how far from the expected PSN a packet of the peer can be that was lost, repeated or
// overtaken: as many packets as a requester may have on the way, which are 8 MiB of 256 bytes
// (losslessWindow). Only READs of more than 32 MiB of other devices have larger distances.
const PathReach = 1 << 15

// shutOut is called for each packet that has come for q during an alarm, and reports whether it is dropped,
// because the path is closed. With the packet the path may open, or the alarm end.
func (sh *receiver) shutOut(p *object.Port, q *object.QP, info *packet.Info) bool {
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

// openPath opens a half of the path. If requests were dropped that may have been those of peers, NAKs go to
// the peers for the packets that are expected. A peer that has sent none ignores the NAK: no packet of it is
// on the way.
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

// nearTime is how long after a packet with a PSN near the expected one a packet with the expected PSN may
// be the next one of a scan. Scans of less than 100 a second take two days.
const nearTime = 10 * time.Millisecond

// dropCrowded reports whether a packet with the expected PSN is dropped, because during an alarm others with
// PSNs near it came just before. A NAK goes to the peer, which then sends the packet first.
func (sh *receiver) dropCrowded(p *object.Port, q *object.QP, answers bool) bool {
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

// strays counts a packet that does not have the expected PSN. It reports whether the packet is
// dropped, because the path closes with it. Without a scan, only packets that are far from the expected PSN
// count. While there is one, all do: they may be those of the scan that come shortly before it hits.
func (sh *receiver) strays(p *object.Port, q *object.QP, far, answers bool) bool {
	w := q.Wire
	h, now := w.Guard.Direction(answers), sh.Now()
	if !far && !h.Doubtful(now) {
		return false
	}
	w.Strays++
	// A peer that got a NAK may have sent more already.
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
		p.Stats.ShutOut++ // one that is far is counted as such
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

// perSecond returns how many n within some time are in a second.
func perSecond(n uint64, d time.Duration) uint64 {
	return uint64(float64(n) / max(d, time.Millisecond).Seconds())
}

// Doubted reports whether a request that q cannot execute is dropped, as if it had been lost, because so
// many packets of a scan have come that it may be one of them. A NAK would end the connection. If it was
// the peer's, the peer gets no answer, and its retries run out.
func (sh *receiver) Doubted(q *object.QP) bool {
	if q.Wire == nil || !q.Reliable() || !q.Wire.Guard.Requests.Doubtful(sh.Now()) {
		return false
	}
	q.Wire.Port.Stats.Doubted++
	return true
}
