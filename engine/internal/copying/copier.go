//go:build linux && (amd64 || arm64)

// Package copying copies transfers that no cache holds, by the faster of two ways.
//
// A cached copy is Go's copy of a slice. A non-temporal copy has stores that
// bypass the caches (cpu.CopyNonTemporal): it does not read a line of the target before it
// is overwritten, and it leaves what other threads have in the caches. Which of them is
// faster depends on the machine and on the memory, by a factor of two either way
// (docs/design/0013-copying.md), so a Copier finds out by measuring.
//
// A stretch is a number of bytes that are copied the same way. In a trial, stretches of
// both ways take turns, in pairs; the way that wins more of the pairs is kept for a
// long stretch, until the next trial.
//
// The engine has a Copier for each client, so that the memory of one client decides
// nothing for another, and each worker thread has one for all clients.
package copying

import (
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// A Copier copies bytes and learns which way is faster. Its zero value begins with a
// trial. Not safe for concurrent use.
type Copier struct {
	nonTemporal bool   // the way of this stretch
	best        bool   // likewise: the way that won the last trial
	left        int    // bytes of this stretch that are still to be copied
	pairs       int    // of stretches that are left of this trial; 0: there is no trial
	wins        int    // of the non-temporal copy in this trial
	cycles      uint64 // that this stretch has taken
	other       uint64 // that the stretch before it took, copied the other way
	rest        int    // bytes between the last trial and the next; 0: there was no trial yet
}

// The stretches of a trial are long beside the first levels of cache. Which way wins is
// a matter of the majority because a stretch during which the thread was interrupted
// loses its comparison. The rest between two trials doubles as long as they find the
// same.
const (
	trialBytes = 1 << 20
	trialPairs = 7
	firstRest  = 1 << 30
	lastRest   = 64 << 30
)

// Threshold returns the number of bytes from which on a transfer should go through a
// Copier, given the size of the largest cache. Such a transfer has a source and a
// destination, so at its end nothing of its beginning is left in a cache of that size.
// Where the processor has no non-temporal copy, no transfer is so long.
func Threshold(cache int) uint64 {
	if !cpu.CanCopyNonTemporal {
		return ^uint64(0)
	}
	return uint64(max(cache/2, trialBytes))
}

// Fixed returns a Copier that copies the next n bytes, n > 0, one way, and then begins a
// trial. For tests.
func Fixed(nonTemporal bool, n int) Copier {
	return Copier{nonTemporal: nonTemporal, left: n, rest: 1}
}

// Left returns how many bytes are still to be copied before the Copier may change the
// way. For tests.
func (c *Copier) Left() int { return c.left }

// Copy does what the builtin copy does. It is meant for pieces that take microseconds:
// in a trial it reads the clock twice.
func (c *Copier) Copy(dst, src []byte) int {
	if c.left <= 0 {
		c.nextStretch()
	}
	began := uint64(0)
	if c.pairs > 0 {
		began = clock.Now()
	}
	var n int
	if c.nonTemporal {
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

// nextStretch begins another stretch. In a pair the cached copy comes first.
func (c *Copier) nextStretch() {
	switch {
	case c.pairs == 0: // the rest is over: a trial begins
		c.pairs, c.wins, c.nonTemporal, c.left = trialPairs, 0, false, trialBytes
	case !c.nonTemporal:
		c.nonTemporal, c.left = true, trialBytes
	default:
		if c.cycles < c.other {
			c.wins++
		}
		if c.pairs--; c.pairs > 0 {
			c.nonTemporal, c.left = false, trialBytes
		} else {
			c.decide(c.wins > trialPairs/2)
		}
	}
	c.cycles, c.other = 0, c.cycles
}

// decide ends a trial: the stretch that begins is the rest until the next one.
func (c *Copier) decide(nonTemporal bool) {
	if c.rest == 0 || nonTemporal != c.best {
		c.rest = firstRest
	} else {
		c.rest = min(2*c.rest, lastRest)
	}
	c.nonTemporal, c.best, c.left = nonTemporal, nonTemporal, c.rest
}
