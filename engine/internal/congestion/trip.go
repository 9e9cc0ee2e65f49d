//go:build linux && (amd64 || arm64)

package congestion

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// A Trip is the knowledge of the round-trip time of a path, which all queue pairs on the path share. All
// times are in cycles of the device clock. The zero value knows nothing.
type Trip struct {
	least   uint64 // the least time of a round
	seen    uint64 // when a round has taken hardly more than that
	found   uint64 // the least time of a round since the windows are small
	emptied uint64 // until when windows are small, so that the queue empties; 0: they are not
	before  bool   // they have been small
}

const (
	// shortest is the shortest round-trip time from which queues can be seen.
	shortest = 2 * time.Millisecond

	// fresh is for how many round trips the least time is believed. The path may have become longer, or all
	// measured times may have been times in a queue of others. The first time is not believed as long,
	// because others may have filled the queue before. (BBR looks for it after 5 s, 100 trips of 50 ms.)
	fresh      = 40
	freshFirst = 16

	// emptyRounds is for how many round trips windows are half: one until they are, one for a measurement.
	emptyRounds = 3
)

// Add takes the time of a round that has ended now.
func (t *Trip) Add(took, now uint64) {
	if t.least == 0 || took <= t.least+t.least/16 {
		t.seen = now
	}
	if t.least == 0 || took < t.least {
		t.least = max(took, 1)
	}
	switch {
	case t.emptied == 0 && now-t.seen > t.believed():
		t.emptied, t.found, t.before = now+emptyRounds*took, took, true
	case t.emptied == 0:
	case now < t.emptied:
		t.found = min(t.found, took)
	default:
		t.least, t.seen, t.emptied = max(min(t.found, took), 1), now, 0
	}
}

// believed returns how long the least time is believed without another as short.
func (t *Trip) believed() uint64 {
	if t.before {
		return fresh * t.least
	}
	return freshFirst * t.least
}

// Least returns the least round-trip time. It is not below that of a long path: shorter times depend on the
// threads at both ends as well.
func (t *Trip) Least() uint64 { return max(t.least, clock.Cycles(shortest)) }

// Empties reports whether windows are small, so that the queue empties.
func (t *Trip) Empties() bool { return t.emptied != 0 }
