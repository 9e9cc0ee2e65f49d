package pool

import (
	"errors"
	"fmt"
	"time"
)

// This file has how a link notices that the other node lives, is dead, has left, or has restarted.

// livesApart is less than any engine takes to restart. If a peer's epoch changes sooner, the link rests. So
// a node that changes its epoch in each tick does not make this node open a port in each tick.
const livesApart = 10 * tick

// recordLife records what the other node says of its life, and whether its heartbeat moves. It returns why
// the node cannot be used, or "".
func (l *link) recordLife(seen *life, ran time.Duration) string {
	l.room = seen.room
	if seen.looks != l.looks {
		l.p.looked.Store(l.seen || l.p.looked.Load()) // a node that comes has not looked
		l.looks = seen.looks
	}
	switch {
	case seen.state == stateLeft && seen.identity == l.p.header.identity:
		l.seen, l.alive = false, false
		return fmt.Sprintf("node %d has left the pool", l.peer)
	case seen.state != statePresent || seen.identity != l.p.header.identity || seen.epoch == 0 ||
		uint32(seen.epoch) != 0:
		l.seen, l.alive = false, false
		return fmt.Sprintf("node %d has not joined the pool", l.peer)
	case !l.seen:
		l.seen, l.alive, l.heartbeat, l.moved = true, false, seen.heartbeat, ran
	case seen.heartbeat != l.heartbeat:
		l.alive, l.heartbeat, l.moved = true, seen.heartbeat, ran
	case l.alive && ran-l.moved > l.p.cfg.Dead:
		l.alive = false
	}
	if !l.alive {
		return fmt.Sprintf("node %d gives no sign of life: its heartbeat stands still", l.peer)
	}
	return ""
}

// freshTime is how long a node that was seen for the first time, and not yet to live, is looked at each time.
const freshTime = time.Second

// fresh reports whether the other node was seen for the first time a moment ago. It is looked at each time
// until its heartbeat has moved.
func (l *link) fresh(ran time.Duration) bool { return l.seen && !l.alive && ran-l.moved < freshTime }

// noticeRestart closes the port of the link if the other node has another epoch than before: its engine has
// restarted, and the queue pairs of the earlier life are gone.
func (l *link) noticeRestart(epoch uint64) {
	if epoch != l.epoch && l.epoch != 0 {
		l.withdrawBoard()
		l.close(fmt.Sprintf("node %d has restarted", l.peer))
		l.epoch, l.theirs, l.changes = 0, -1, 0
	}
}

// readDescription reads the other node's description if it has changed, or is of another life of the node.
func (l *link) readDescription(seen *life) error {
	epoch := seen.epoch
	if l.epoch == epoch && l.describedSeen == seen.described {
		return nil
	}
	d, sequence, err := l.p.view.described(l.part)
	switch {
	case errors.Is(err, errTorn) && l.epoch == epoch:
		return nil // the description that was read last is good until the new one is complete
	case err != nil:
		return err
	case d.guid == l.p.dev.GUID():
		return fmt.Errorf("it says that it is this engine, %016x", d.guid)
	case l.epoch == epoch && l.sequence == sequence:
		l.describedSeen = seen.described
		return nil
	case l.epoch == epoch && (d.guid != l.desc.guid || d.mtu != l.desc.mtu || d.host != l.desc.host):
		return fmt.Errorf("it has changed what cannot change: GUID, MTU or host")
	}
	if l.epoch != epoch {
		now := l.p.time.Now()
		if now.Sub(l.born) < livesApart {
			l.restUntil = now.Add(firstRest)
		} else {
			l.rest, l.restUntil = firstRest, time.Time{}
		}
		l.born = now
	}
	if d.names != l.desc.names {
		l.changes = 0 // others had overwritten it, so a search may have been left out
	}
	l.epoch, l.sequence, l.describedSeen, l.desc = epoch, sequence, seen.described, d
	l.change()
	return nil
}
