package engine

import (
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// A copier copies transfers that no cache holds, the faster of two ways: through
// the caches, or past them. Which that is depends on the machine and on the memory,
// by a factor of two either way, so it is found out by doing: in a trial both ways
// take turns, and the one that wins more often is kept until the next. Each client
// has its own, so that nobody's memory decides for others; of what workers copy, each
// worker has one for all clients.
type copier struct {
	past   bool   // the way of this stretch, past the caches
	best   bool   // the way that won the last trial
	left   int    // bytes of this stretch, or until the next trial
	pairs  int    // of stretches left of this trial; 0: there is none
	wins   int    // of past, in this trial
	cycles uint64 // that this stretch has taken
	other  uint64 // that the one before took, by the other way
	rest   int    // bytes from the last trial to the next
}

// A trial compares stretches, long beside a cache's first levels, one each way
// at a time: the way that was interrupted loses one comparison. Trials come less and
// less often as long as they find the same.
const (
	trialBytes = 1 << 20
	trialPairs = 7
	firstRest  = 1 << 30
	lastRest   = 64 << 30
)

// beyondCaches returns from how many bytes on a transfer leaves nothing of its
// beginning in a cache of that size: it has a source and a destination.
func beyondCaches(cache int) uint64 {
	if !cpu.CanCopyNonTemporal {
		return ^uint64(0)
	}
	return uint64(max(cache/2, trialBytes))
}

// copy is copy, of a piece that takes microseconds.
func (c *copier) copy(dst, src []byte) int {
	if c.left <= 0 {
		c.turn()
	}
	began := uint64(0)
	if c.pairs > 0 {
		began = clock.Now()
	}
	var n int
	if c.past {
		n = cpu.CopyNonTemporal(dst, src)
	} else {
		n = copy(dst, src)
	}
	if c.pairs > 0 {
		c.cycles += clock.Now() - began
	}
	c.left -= n
	return n
}

// turn goes from one stretch to the next. Of a pair past comes second.
func (c *copier) turn() {
	switch {
	case c.pairs == 0: // now a trial
		c.pairs, c.wins, c.past, c.left = trialPairs, 0, false, trialBytes
	case !c.past:
		c.past, c.left = true, trialBytes
	default:
		if c.cycles < c.other {
			c.wins++
		}
		if c.pairs--; c.pairs > 0 {
			c.past, c.left = false, trialBytes
		} else {
			c.decide(c.wins > trialPairs/2)
		}
	}
	c.cycles, c.other = 0, c.cycles
}

// decide ends a trial.
func (c *copier) decide(past bool) {
	if c.rest == 0 || past != c.best {
		c.rest = firstRest
	} else {
		c.rest = min(2*c.rest, lastRest)
	}
	c.past, c.best, c.left = past, past, c.rest
}
