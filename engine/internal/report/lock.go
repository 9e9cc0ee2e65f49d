//go:build linux && (amd64 || arm64)

package report

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
)

// Acquire takes this shard's ticket lock before the shard works, and Release gives the lock
// back. In an engine with one shard both do nothing.
func (sh *Reporter) Acquire() {
	if !sh.Several {
		return
	}
	if !sh.TryLock() {
		now := clock.Now()
		sh.Busy.Publish(0)
		sh.Ticket.Lock()
		sh.passedAt(now)
		sh.Restart() // the thread waited for the lock, not for memory of its clients
	}
	sh.Acquired, sh.Crossed = true, 0
}

// LockPeerShard takes the ticket lock of m in addition to that of sh, and reports whether
// this shard holds the lock of m now. LockPeerShard waits for the lock only if urgent is true
// or CrossPatience has passed.
func (sh *Reporter) LockPeerShard(m *object.Shard, urgent bool) bool {
	switch {
	case sh.Holds(m):
		return true
	case sh.Refuse != nil && sh.Refuse():
	case m.TryLock():
		sh.PeerShard, sh.DeniedSince = m, 0
		return true
	}
	if !urgent {
		if sh.DeniedSince == 0 {
			sh.DeniedSince = sh.Clock()
		}
		if sh.Clock()-sh.DeniedSince < clock.Cycles(object.CrossPatience) {
			return false
		}
	}
	sh.Passed()
	if m.Number < sh.Number {
		sh.Acquired = false
		sh.Ticket.Unlock() // locks are waited for in ascending order only
		m.Ticket.Lock()
		sh.Ticket.Lock()
		sh.Acquired = true
	} else {
		m.Ticket.Lock()
	}
	sh.Restart()
	sh.PeerShard, sh.DeniedSince = m, 0
	return true
}

// UnlockPeerShard unlocks the other shard, if this shard holds its lock. It wakes the other
// shard if the other shard has or may have new work. A shard with stalled queues may have new
// work, because a WAIT in a stalled queue may wait for a completion that was written under the
// lock.
func (sh *Reporter) UnlockPeerShard() {
	if sh.PeerShard != nil {
		sh.unlockPeerShard()
	}
}

func (sh *Reporter) unlockPeerShard() {
	m := sh.PeerShard
	sh.PeerShard = nil
	if m.GotWork || m.Stalled > 0 {
		m.GotWork = false
		m.Wake()
	}
	m.Ticket.Unlock()
}
