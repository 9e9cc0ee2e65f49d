//go:build linux && (amd64 || arm64)

package report

import (
	"math"

	"github.com/nicless/nicless/internal/clock"
)

// Publish updates the status pages of the shard's clients if they are older than
// publishTime.
func (sh *Reporter) Publish() { sh.PublishAt(clock.Now()) }

func (sh *Reporter) PublishAt(now uint64) {
	if now-sh.Published < sh.PublishCycles {
		return
	}
	sh.Published = now
	if sh.Bound != math.MaxUint64 {
		sh.Usage.Sample(now, false)
	}
	if !sh.Acquired { // the lock is held already if a fault has cut the steps off
		sh.Acquire()
		defer sh.Release()
	}
	for c := range sh.Clients {
		c.Publish(now)
	}
}
