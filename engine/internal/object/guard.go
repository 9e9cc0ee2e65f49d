//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/scan"
)

// A PathGuard watches a path by which packets come to reliable connections. A stranger who can send by
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
type PathGuard struct {
	Requests, Answers half
	Alarm             bool    // a half has closed, and the scan is not over
	Wires             []*Wire // that are on the path
}

// A half is what a guard knows about requests, or about answers.
type half struct {
	scan.Limiter
	Told bool // this scan has been counted and explained
}

// A guardKey names a guard: a path, and the user of the queue pairs to which its packets come.
type guardKey struct{ path, uid uint32 }

func (w *Wire) guardKey() guardKey { return guardKey{w.From, w.Q.Client.UID} }

// noPath is the number of no path. A carrier that uses it does not limit itself.
const noPath = ^uint32(0)

// Guard puts a queue pair that begins to use a path under the guard of the path.
func (p *Port) Guard(w *Wire) {
	at := w.guardKey()
	g := p.Guards[at]
	if g == nil {
		if p.Guards == nil {
			p.Guards = make(map[guardKey]*PathGuard)
		}
		g = new(PathGuard)
		p.Guards[at] = g
	}
	w.Guard, w.guarded = g, len(g.Wires)
	g.Wires = append(g.Wires, w)
	w.divert()
}

// Unguard ends that.
func (p *Port) Unguard(w *Wire) {
	g := w.Guard
	last := len(g.Wires) - 1
	g.Wires[w.guarded] = g.Wires[last]
	g.Wires[w.guarded].guarded = w.guarded
	g.Wires[last] = nil
	if g.Wires = g.Wires[:last]; last == 0 {
		delete(p.Guards, w.guardKey())
	}
}

// divert keeps packets of the path from the fast path during an alarm. The fast path compares the path of a
// packet with source anyway, so it costs nothing.
func (w *Wire) divert() {
	if w.Source = w.From; w.Guard.Alarm {
		w.Source = noPath
	}
}

// SetAlarm begins or ends an alarm.
func (g *PathGuard) SetAlarm(on bool) {
	g.Alarm = on
	for _, w := range g.Wires {
		w.divert()
	}
}

// Half returns what the guard knows about packets like this one.
func (g *PathGuard) Half(answers bool) *half {
	if answers {
		return &g.Answers
	}
	return &g.Requests
}

// Near returns until when that is so.
func (w *Wire) Near(answers bool) *uint64 {
	if answers {
		return &w.nearAnswer
	}
	return &w.nearRequest
}
