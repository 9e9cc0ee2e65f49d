//go:build linux && (amd64 || arm64)

package transport

import "github.com/nicless/nicless/engine/internal/object"

// Packets that were kept, up to a window of them, can be executed when one packet has come. They cost as much
// of the budget of a step as packets that come, and the rest is left to later steps.

// resume executes packets that one of the queue pairs of p has kept, within the budget of a step.
func (sh *PortServer) resume(p *object.Port) {
	w := p.Resumed[0]
	p.Resumed = p.Resumed[:copy(p.Resumed, p.Resumed[1:])]
	w.Resuming = false
	q := w.Q
	if q.Wire != w || w.Port != p || !q.Listens() {
		return
	}
	sh.Fault.Port = p
	sh.Enter(q)
	p.Left, sh.Sched.Effort = sh.Settings.Slice, 0
	sent := p.Settings.Send.Sent()
	if w.Recovery.Keeps() {
		sh.serveEarly(p, q, w.In.PSN)
	}
	if q.Wire == w && w.Recovery.KeepsAnswers() {
		sh.resumeAnswers(p, q)
	}
	if p.Watched > 0 && !p.Dead {
		sh.RecordSent(q, p, sent)
	}
}
