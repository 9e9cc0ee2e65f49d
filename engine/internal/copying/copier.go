//go:build linux && (amd64 || arm64)

// Package copying copies transfers that are too long for any cache. It uses the faster of two
// ways.
//
// A cached copy is Go's copy of a slice. A non-temporal copy uses stores that bypass the
// caches (cpu.CopyNonTemporal). It does not read a line of the target before it overwrites
// the line, and it does not evict from the caches what other threads have there. Either way
// can be twice as fast as the other. Which way is faster depends on the machine and on the
// memory (docs/design/0013-copying.md), so a Copier measures.
//
// A stretch is a number of bytes that are copied the same way. In a trial, stretches of the
// two ways alternate, in pairs. The way that wins more of the pairs is then used for a long
// stretch, until the next trial.
//
// The engine's thread has a Copier for each client, so that the memory of one client does not
// decide how that of another is copied. Each worker thread has one Copier for all clients.
package copying

import (
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
)

// A Copier copies bytes and measures which way is faster. Its zero value begins with a trial. Not
// safe for concurrent use.
type Copier struct {
	nonTemporal bool   // this stretch is copied by the non-temporal copy
	best        bool   // the non-temporal copy won the last trial
	left        int    // bytes of this stretch that are still to be copied
	pairs       int    // pairs of stretches left in this trial; 0: no trial is running
	wins        int    // pairs of this trial that the non-temporal copy has won
	cycles      uint64 // cycles that this stretch has taken
	other       uint64 // cycles that the last stretch took, which was copied the other way
	rest        int    // bytes between the last trial and the next; 0: there was no trial yet
}

// The stretches of a trial are long compared with the first levels of cache. A trial has
// several pairs, because a stretch during which the thread was interrupted loses its pair. The
// long stretch between two trials is called the rest. It is twice as long as the rest before
// if the last two trials had the same result, but at most lastRest.
const (
	trialBytes = 1 << 20
	trialPairs = 7
	firstRest  = 1 << 30
	lastRest   = 64 << 30
)

// Threshold returns the least number of bytes that a transfer should have to be copied by a
// Copier. cache is the size of the largest cache in bytes. The source and the destination of
// such a transfer together fill the cache, so at the end of the transfer the cache holds
// nothing of its beginning. If the processor has no non-temporal copy, Threshold returns
// more bytes than any transfer has.
func Threshold(cache int) uint64 {
	if !cpu.CanCopyNonTemporal {
		return ^uint64(0)
	}
	return uint64(max(cache/2, trialBytes))
}

// Fixed returns a Copier that copies the next n bytes (n > 0) the given way, and then begins
// a trial. For tests.
func Fixed(nonTemporal bool, n int) Copier {
	return Copier{nonTemporal: nonTemporal, left: n, rest: 1}
}

// Left returns how many bytes are still to be copied before the Copier may use the other way.
// For tests.
func (c *Copier) Left() int { return c.left }

// Copy does what the builtin copy does. It is meant for pieces that take microseconds, because
// it reads the clock twice in a trial.
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

// nextStretch begins another stretch. In each pair the cached copy comes first.
func (c *Copier) nextStretch() {
	switch {
	case c.pairs == 0: // the rest is over, so a trial begins
		c.pairs, c.wins, c.nonTemporal, c.left = trialPairs, 0, false, trialBytes
	case !c.nonTemporal:
		c.nonTemporal, c.left = true, trialBytes
	default:
		if c.cycles < c.other {
			c.wins++
		}
		c.pairs--
		if c.pairs > 0 {
			c.nonTemporal, c.left = false, trialBytes
		} else {
			c.decide(c.wins > trialPairs/2)
		}
	}
	c.cycles, c.other = 0, c.cycles
}

// decide ends a trial, and begins the stretch that is the rest until the next trial.
func (c *Copier) decide(nonTemporal bool) {
	if c.rest == 0 || nonTemporal != c.best {
		c.rest = firstRest
	} else {
		c.rest = min(2*c.rest, lastRest)
	}
	c.nonTemporal, c.best, c.left = nonTemporal, nonTemporal, c.rest
}
