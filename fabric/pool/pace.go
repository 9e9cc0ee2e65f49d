package pool

import "time"

// A node beats and looks once per tick while something happens: nodes come or go, rings are opened, closed or
// grow. A node for which nothing has happened for briskTime does so once per idleTick: each beat wakes the
// process, which costs far more than what the beat does, and a host may run a hundred nodes.
//
// The other nodes must not take a slow beat for silence. So a node beats at least perDeath times in the
// time after which any of them, as its description says, or itself would take it for dead.
const (
	idleTick  = 5 * tick
	briskTime = 2 * time.Second
	perDeath  = 10
)

// A pace is how often this node beats and looks. The zero value: once per tick.
type pace struct {
	pause   time.Duration // until the next look; 0: one tick
	brisk   time.Duration // until when the node is brisk, on the clock of its own run
	stirred bool          // something has happened since the last look
}

// slow reports whether the node beats once in more than a tick.
func (c *pace) slow() bool { return c.pause > tick }

// setPace chooses the pause until the next look. ran is the time in which this node ran.
func (p *Pool) setPace(ran time.Duration) {
	c := &p.pace
	if p.changed || c.stirred || p.lost != "" || ran == 0 {
		c.brisk, c.stirred = ran+briskTime, false
	}
	c.pause = tick
	if ran > c.brisk {
		c.pause = p.slowest(ran)
	}
	p.clock.pause = c.pause
}

// slowest returns the longest pause that no other node takes for silence, and in which this one misses
// nothing.
func (p *Pool) slowest(ran time.Duration) time.Duration {
	least := min(idleTick, p.cfg.Dead/perDeath)
	for _, l := range p.links {
		switch {
		case l == nil || !l.alive:
		case l.pair != nil && !l.up:
			return tick // the two nodes agree on a session
		case ran-l.moved > p.cfg.Dead/2:
			return tick // it may be dead, which is to be found in time
		case l.epoch != 0:
			least = min(least, l.desc.dead/perDeath)
		}
	}
	return max(least, tick)
}

// watchTime is how long a node whose life is in question is watched before its number is taken: long enough
// for a slow beat, whatever Config.Dead is.
func (c *Config) watchTime() time.Duration { return max(c.Dead, 5*idleTick) }
