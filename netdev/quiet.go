//go:build linux && (amd64 || arm64)

package netdev

import (
	"errors"
	"fmt"
	"time"
)

// A session that is quiet is given up: each side sends kindEnd as its last message, and closes its queue pair
// when it has the other's. So no packet is lost: those that come meanwhile wait for the next session. A side
// that hears kindEnd answers so at once, even if it has packets.

const (
	// quietTime is after how long without a packet a session ends. The kernel keeps an unused neighbour on an
	// Ethernet for 60 s by default. Another session costs some milliseconds.
	quietTime = 60 * time.Second

	// leastQuiet is how long the session must be quiet that is given up for another one.
	leastQuiet = 2 * time.Second

	// sweepPause is how often it is noticed whether sessions are quiet.
	sweepPause = time.Second

	// endTime is how long a side waits for the other's kindEnd. A peer that has no core for that long loses
	// the packets that it has not taken.
	endTime = 5 * time.Second

	// lookAgain is how often it is looked whether a session has ended, or packets that wait can be sent.
	lookAgain = time.Millisecond
)

// sweep notices which sessions are quiet, and ends those that are for long.
func (in *Interface) sweep(now time.Time) {
	if in.short.Swap(false) {
		in.relieve()
	}
	if in.opened == 0 || now.Before(in.nextSweep) {
		return
	}
	in.nextSweep = now.Add(sweepPause)
	in.later(sweepPause)
	for p := range in.active {
		if p.phase == open && p.isQuiet(now) && now.Sub(p.quietSince) >= in.quiet {
			p.finish(now)
		}
	}
}

// isQuiet reports whether no packet has travelled since the last call.
func (p *peer) isQuiet(now time.Time) bool {
	n := p.stats.packetsOut.Load() + p.stats.packetsIn.Load()
	if n != p.counted {
		p.counted, p.quietSince = n, now
		return false
	}
	return true
}

// relieve is called when all buffers have been on the way for stallTime. It ends the sessions of the peers
// that hold some and have taken nothing since the last call.
func (in *Interface) relieve() {
	for p := range in.active {
		p.mu.Lock()
		stands := p.up && p.held > 0 && p.taken == p.took
		p.took = p.taken
		p.mu.Unlock()
		if stands {
			p.warn("peer stands", "it has taken no packet, and others need the buffers")
			p.broken.Store(true)
		}
	}
}

var errRoomSoon = errors.New("another session ends first")

// room returns nil if there is room for one more session, errRoomSoon if there will be, and else why not.
func (in *Interface) room(now time.Time) error {
	if in.opened < in.maxSessions {
		return nil
	}
	var quietest *peer
	for p := range in.active {
		if p.phase == ending {
			return errRoomSoon
		}
		if p.phase == open && (quietest == nil || p.quietSince.Before(quietest.quietSince)) {
			quietest = p
		}
	}
	if quietest == nil || !quietest.isQuiet(now) || now.Sub(quietest.quietSince) < leastQuiet {
		return fmt.Errorf("%d sessions are open, which is the most, and none has been quiet for %v", in.opened, leastQuiet)
	}
	quietest.finish(now)
	return errRoomSoon
}

// finish says to the peer that nothing more comes in this session.
func (p *peer) finish(now time.Time) {
	p.mu.Lock()
	p.up = false
	p.wakeSender()
	err := p.postHead(message{kind: kindEnd, freed: p.consumed.Load()}, noPacket)
	p.mu.Unlock()
	p.phase, p.since = ending, now
	if err != nil { // the send queue is full: the peer takes nothing
		p.since = now.Add(-p.in.endTime)
	}
	p.in.later(lookAgain)
}

// finished reports whether the session can be closed.
func (p *peer) finished(now time.Time) bool {
	if now.Sub(p.since) >= p.in.endTime {
		return true
	}
	p.in.collect()
	p.mu.Lock()
	defer p.mu.Unlock()
	// The peer may read from slots until it closes the session itself. It says no more when it has.
	if p.ended && p.posted == 0 && len(p.slotsSent) == 0 {
		return true
	}
	p.in.later(lookAgain)
	return false
}

// later makes the goroutine that receives take the next step of all sessions after some time, in whole
// milliseconds. All that ask for the same one share a timer: each step may ask for many.
func (in *Interface) later(d time.Duration) {
	due := (time.Since(in.begun) + d + lookAgain - 1).Truncate(lookAgain)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.due[due] {
		return
	}
	in.due[due] = true
	time.AfterFunc(due-time.Since(in.begun), func() {
		in.mu.Lock()
		delete(in.due, due)
		in.mu.Unlock()
		in.again()
	})
}
