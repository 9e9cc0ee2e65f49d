//go:build linux && (amd64 || arm64)

package object

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
	w.Divert()
}

// Unguard takes a queue pair from under the guard.
func (p *Port) Unguard(w *Wire) {
	g := w.Guard
	last := len(g.Wires) - 1
	g.Wires[w.guarded] = g.Wires[last]
	g.Wires[w.guarded].guarded = w.guarded
	g.Wires[last] = nil
	g.Wires = g.Wires[:last]
	if last == 0 {
		delete(p.Guards, w.guardKey())
	}
}

// Divert keeps packets of the path from the fast path during an alarm, and while packets wait that came too
// early. The fast path compares the path of a packet with Source anyway, so it costs nothing.
func (w *Wire) Divert() {
	w.Source = w.From
	if w.Guard.Alarm || w.Recovery.Keeps() || w.Recovery.KeepsAnswers() {
		w.Source = noPath
	}
}

// SetAlarm begins or ends an alarm.
func (g *PathGuard) SetAlarm(on bool) {
	g.Alarm = on
	for _, w := range g.Wires {
		w.Divert()
	}
}

// Direction returns what the guard knows about answers, or about requests.
func (g *PathGuard) Direction(answers bool) *direction {
	if answers {
		return &g.Answers
	}
	return &g.Requests
}

// Near returns until when a packet with the expected PSN counts as part of a scan.
func (w *Wire) Near(answers bool) *uint64 {
	if answers {
		return &w.nearAnswer
	}
	return &w.nearRequest
}
