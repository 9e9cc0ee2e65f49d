package pool

import "time"

// Another engine can become this node while this engine is stopped: somebody has started it with the same
// number. Its description tells it from bytes that were overwritten: the description has the epoch of the
// engine's life and a check sum. If it is complete and of another life, this engine writes no more into the
// block, and waits until the other engine has ended.

// A rival is another engine that has become this node. The zero value: there is none.
type rival struct {
	why       string        // what this node says of it; "": there is none
	heartbeat uint64        // the rival's, as last seen
	moved     time.Duration // on the clock of this node's own run
	rest      time.Duration // how long its heartbeat must stand still
	back      time.Time     // when this node came back from the last one
}

// watchRival begins to watch the engine that has become this node.
func (p *Pool) watchRival(why string) {
	r, now := &p.rival, p.time.Now()
	if r.rest == 0 || now.Sub(r.back) > mostRest {
		r.rest = max(firstRest, p.cfg.Dead)
	}
	r.why, r.moved = why, p.clock.ran
	p.ousted.Store(true)
}

// updateRival looks at the rival's heartbeat, and reports whether the rival has ended: its state says so, or
// its heartbeat has stood still for the rest. Each time the rest doubles, so two engines that stop and
// continue in turn do not take the number from each other for ever.
func (p *Pool) updateRival(now time.Time, ran time.Duration) bool {
	r := &p.rival
	seen := p.view.life(p.part)
	if seen.state == statePresent && seen.heartbeat != r.heartbeat {
		r.heartbeat, r.moved = seen.heartbeat, ran
	}
	if ran-r.moved <= r.rest {
		return false
	}
	r.why, r.back, r.rest = "", now, min(2*r.rest, max(mostRest, p.cfg.Dead))
	return true
}
