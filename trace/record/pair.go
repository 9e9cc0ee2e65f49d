package record

import "github.com/nicless/nicless/trace"

// pair finds the peer of each life of a queue pair of RC and UC.
func (g *gatherer) pair(byNumber map[uint32][]*queue) {
	found := map[*queue]*queue{}
	for _, q := range g.queues {
		if !q.left && q.transport != trace.UD && q.dest != 0 {
			found[q] = q.best(byNumber[q.dest])
		}
	}
	for q, p := range found {
		if p != nil && found[p] == q {
			q.peer = p
		}
	}
	g.unpair()
}

// best returns the life among those that q was connected to for the longest time, or nil. A queue pair may be
// reset, and connected again, before its peer is; and other processes use the number later.
func (q *queue) best(candidates []*queue) (found *queue) {
	var most uint64
	for _, p := range candidates {
		if p.dest != q.number || p.transport != q.transport || !sameTime(p.process, q.process) {
			continue
		}
		if from, to := max(p.from, q.from), min(p.to, q.to); from < to && to-from > most {
			found, most = p, to-from
		}
	}
	return found
}

// sameTime reports whether both processes were there at a time.
func sameTime(a, b *process) bool { return a.last >= b.reader.mono && b.last >= a.reader.mono }

// unpair takes the peers of all lives of a queue pair away if one of them was connected to a peer that is not
// in the record. Then the peers have none either, and so on: a replay leaves out whole queue pairs.
func (g *gatherer) unpair() {
	lives := map[*object][]*queue{}
	var without []*queue
	for _, q := range g.queues {
		if q.left || q.transport == trace.UD {
			continue
		}
		lives[q.object] = append(lives[q.object], q)
		if q.dest != 0 && q.peer == nil {
			without = append(without, q)
		}
	}
	for len(without) > 0 {
		q := without[len(without)-1]
		without = without[:len(without)-1]
		for _, life := range lives[q.object] {
			if p := life.peer; p != nil {
				life.peer, p.peer = nil, nil
				without = append(without, p)
			}
		}
		delete(lives, q.object)
	}
}
