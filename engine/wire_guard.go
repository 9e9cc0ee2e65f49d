//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/scan"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/packet"
)

// A pathGuard watches a path by which packets come to reliable connections. A stranger who can send by
// that path and does not know the PSN that a queue pair expects tries all of them. The guard counts
// packets whose PSNs are far from what is expected, and when there are too many closes the path for
// most of the time, so that such a scan takes hours (package scan). All queue pairs of a user on the path have one
// guard together: somebody who guesses at a thousand of them has no more guesses. Each user has another one, because
// a client makes its own queue pairs send with any PSNs, and so closes the path for those at the other end of them.
//
// While a path is closed, its packets are dropped before their PSNs are judged, whatever they are:
// one with the expected PSN may be a guess. So a scan delays the connection. The queue pair stays
// as it is. When the path opens, the responder asks the peer for the packet that it expects, if one
// has been dropped.
//
// While the path is open in between, a packet with the expected PSN is dropped once if others with
// PSNs near it came just before: that is what a scan in ascending or descending order looks
// like when it hits. The peer is asked for the packet.
//
// Requests and answers are counted and limited apart: a scan of one half does not delay the other.
type pathGuard struct {
	requests, answers half
	alarm             bool    // a half has closed, and the scan is not over
	wires             []*wire // that are on the path
}

// A half is what a guard knows about requests, or about answers.
type half struct {
	scan.Limiter
	told bool // this scan has been counted and explained
}

// A guardKey names a guard: a path, and the user of the queue pairs to which its packets come.
type guardKey struct{ path, uid uint32 }

func (w *wire) guardKey() guardKey { return guardKey{w.from, w.q.client.uid} }

// noPath is the number of no path. A carrier that uses it does not limit itself.
const noPath = ^uint32(0)

// pathReach is how far from the expected PSN a packet of the peer can be that was lost, repeated or
// overtaken: as many packets as a requester may have on the way, which are 8 MiB of 256 bytes
// (losslessWindow). Only READs of more than 32 MiB of other devices have larger distances.
const pathReach = 1 << 15

// guard puts a queue pair that begins to use a path under the guard of the path.
func (p *port) guard(w *wire) {
	at := w.guardKey()
	g := p.guards[at]
	if g == nil {
		if p.guards == nil {
			p.guards = make(map[guardKey]*pathGuard)
		}
		g = new(pathGuard)
		p.guards[at] = g
	}
	w.guard, w.guarded = g, len(g.wires)
	g.wires = append(g.wires, w)
	w.divert()
}

// unguard ends that.
func (p *port) unguard(w *wire) {
	g := w.guard
	last := len(g.wires) - 1
	g.wires[w.guarded] = g.wires[last]
	g.wires[w.guarded].guarded = w.guarded
	g.wires[last] = nil
	if g.wires = g.wires[:last]; last == 0 {
		delete(p.guards, w.guardKey())
	}
}

// divert keeps packets of the path from the fast path during an alarm. The fast path compares the path of a
// packet with source anyway, so it costs nothing.
func (w *wire) divert() {
	if w.source = w.from; w.guard.alarm {
		w.source = noPath
	}
}

// setAlarm begins or ends an alarm.
func (g *pathGuard) setAlarm(on bool) {
	g.alarm = on
	for _, w := range g.wires {
		w.divert()
	}
}

// half returns what the guard knows about packets like this one.
func (g *pathGuard) half(answers bool) *half {
	if answers {
		return &g.answers
	}
	return &g.requests
}

// shutOut is called for each packet that has come for q during an alarm, and reports whether it is dropped,
// because the path is closed. With the packet the path may open, or the alarm end.
func (sh *receiver) shutOut(p *port, q *qp, info *packet.Info) bool {
	w := q.wire
	g, now := w.guard, sh.now()
	if !g.requests.Doubtful(now) && !g.answers.Doubtful(now) {
		g.setAlarm(false)
		sh.openPath(g, false)
		sh.openPath(g, true)
		return false
	}
	h := g.half(info.Response)
	if !h.Shut() {
		return false
	}
	if !h.Closed(now) {
		sh.openPath(g, info.Response)
		return false
	}
	p.stats.ShutOut++
	if d := packet.DiffPSN(p.bth.PSN, w.in.psn); !info.Response && -pathReach <= d && d <= pathReach {
		w.in.missed = true
	}
	return true
}

// open opens a half of the path. If requests were dropped that may have been those of peers, the peers are asked for
// the packets that are expected. A peer that has sent none takes no notice: nothing of it is on the way.
func (sh *receiver) openPath(g *pathGuard, answers bool) {
	g.half(answers).Open()
	if answers {
		return
	}
	for _, w := range g.wires {
		if q := w.q; w.in.missed && q.listens() && w.in.fatal == 0 {
			w.in.silent = sh.sendNAK(q, packet.NAKSequence)
		}
		w.in.missed = false
	}
}

// nearTime is how long after a packet with a PSN near the expected one a packet with the expected PSN may
// be the next one of a scan. Scans of less than 100 a second take two days.
const nearTime = 10 * time.Millisecond

// near returns until when that is so.
func (w *wire) near(answers bool) *uint64 {
	if answers {
		return &w.nearAnswer
	}
	return &w.nearRequest
}

// crowded reports whether a packet with the expected PSN is dropped, because during an alarm others with PSNs near
// it came just before. The peer is asked for the packet, and sends it first then.
func (sh *receiver) crowded(p *port, q *qp, answers bool) bool {
	w := q.wire
	near := w.near(answers)
	if !w.guard.alarm || sh.now() >= *near {
		return false
	}
	*near = 0
	p.stats.ShutOut++
	if !answers {
		w.in.silent = sh.sendNAK(q, packet.NAKSequence)
	}
	return true
}

// strays counts a packet that does not have the expected PSN. It reports whether the packet is
// dropped, because the path closes with it. Without a scan, only packets that are far from the expected PSN
// count. While there is one, all do: they may be those of the scan that come shortly before it hits.
func (sh *receiver) strays(p *port, q *qp, far, answers bool) bool {
	w := q.wire
	h, now := w.guard.half(answers), sh.now()
	if !far && !h.Doubtful(now) {
		return false
	}
	w.strays++
	if !far && (answers || !w.in.silent || packet.DiffPSN(p.bth.PSN, w.in.psn) < 0) { // a peer that was asked may have sent more already
		*w.near(answers) = now + clock.Cycles(nearTime)
	}
	if h.Calm(now) {
		h.told = false
	}
	if !h.Count(now) {
		return false
	}
	if !far {
		p.stats.ShutOut++ // one that is far is counted as such
	}
	if !w.guard.alarm {
		w.guard.setAlarm(true)
	}
	if h.told {
		return true
	}
	h.told = true
	p.stats.Scans++
	what, expected, cost := "requests", w.in.psn, "requests of this path are dropped most of the time, the peer's too, until that ends"
	if answers {
		what, expected, cost = "answers", w.out.una, "answers on this path are dropped most of the time, the peer's too, until that ends"
	}
	n, since := h.Counted(now)
	sh.explainQueue(q, codes.LinkScan, "%d packets with %s have come within %v (%d a second) from the address of peer QP %#06x on link %s, with PSNs that this peer would not use, %d of them to this queue pair, which is at PSN %#06x: somebody tries PSNs. %s",
		n, what, since.Round(time.Millisecond), perSecond(n, since), q.attr.DestQPN, p.cfg.Name, w.strays, expected, cost)
	return true
}

// perSecond returns how many n within some time are in a second.
func perSecond(n uint64, d time.Duration) uint64 {
	return uint64(float64(n) / max(d, time.Millisecond).Seconds())
}

// doubted reports whether a request that q cannot execute is dropped, as if it had been lost, because so
// many guesses have come that it may be one of them. A NAK would end the connection. If it was the
// peer's, the peer gets no answer, and its retries run out.
func (sh *receiver) doubted(q *qp) bool {
	if q.wire == nil || !q.reliable() || !q.wire.guard.requests.Doubtful(sh.now()) {
		return false
	}
	q.wire.port.stats.Doubted++
	return true
}
