//go:build linux && (amd64 || arm64)

package recovery

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// Looks is what a port knows of looks at what has come. A look is complete when the carrier has found its
// sockets empty after the look began, and the device has taken everything that was in its ring then.
type Looks struct {
	Number   uint32 // of the look that was begun last
	Begun    uint64 // when it began; 0: it is complete, or there was none
	Complete uint64 // when the latest look began that is complete

	emptied bool   // the carrier has found its sockets empty
	end     uint64 // number of the packet up to which the ring had packets at most then
}

// Begin begins a look at the time now, unless one is under way.
func (k *Looks) Begin(now uint64) {
	if k.Begun == 0 {
		k.Number++
		k.Begun, k.emptied = now, false
	}
}

// Emptied is called when the carrier has found its sockets empty. received is the number of packets that were
// taken from the ring, and slots how many it holds: others may keep it from ever being empty.
func (k *Looks) Emptied(received, slots uint64) {
	if !k.emptied {
		k.emptied, k.end = true, received+slots
	}
}

// Sees reports whether the look that is under way is complete, and ends it if it is. empty says that the ring
// is empty.
func (k *Looks) Sees(received uint64, empty bool) bool {
	if !k.emptied || !empty && received < k.end {
		return false
	}
	k.Complete, k.Begun = k.Begun, 0
	return true
}

// An Absence is what a requester knows of its own end's part in the silence of the peer, since its timer was
// started: when the thread of the device or a goroutine of the carrier gets no processor, answers wait in a
// socket, and packets that were to be sent may not have left.
//
// A timeout counts as a retry after a complete look that began when its time had passed; and a timer that
// has run out late gives the peer once as much more time as it was late.
type Absence struct {
	Given bool // the time in missed was given to the peer

	missed uint64 // cycles by which timers ran out late
	since  uint64 // since when the timeout waits for a look; 0: it does not wait
	last   uint64 // when it was waited for last
	pause  uint64 // how long from then to the next time
	waited uint64 // cycles; what exceeds the pauses does not count
	probe  bool   // a probe waits, not the timeout
}

const (
	// leastAwaited is for how long a timeout waits for a look that does not become complete, if the
	// attribute timeout is shorter: a thread among 50 others that are busy gets a processor every 0.2 s. A
	// carrier whose sockets are flooded by other peers never completes a look, so each retry takes this
	// much longer.
	leastAwaited = time.Second

	// mostPrompt is how late a timer of a thread that runs may be.
	mostPrompt = time.Millisecond
)

// Restart is called when the timer is started.
func (a *Absence) Restart() {
	if a.missed|a.since != 0 || a.Given {
		*a = Absence{}
	}
}

// Late notes that the timer has run out so many cycles after its time.
func (a *Absence) Late(by uint64) {
	if by > clock.Cycles(mostPrompt) {
		a.missed += by
	}
}

// Await is called at the time now when the attribute timeout, patience cycles, has passed. It returns
// since when a look must have begun, and when to call it again: 0 if it has waited long enough. The time
// between two calls doubles. Time in which this end did not run is not waited: of the time between two calls,
// as much counts as they were to be apart. So if the thread is always slow, Await is called about 20 times
// for each timeout.
func (a *Absence) Await(now, patience uint64) (since, again uint64) {
	if a.probe {
		a.Probed() // a look for a probe has begun before the attribute timeout has passed
	}
	return a.await(now, max(patience, clock.Cycles(leastAwaited)))
}

// AwaitProbe is Await, called when a peer was silent for so many cycles that it is probed: the wait takes as
// long at most. Probed ends it.
func (a *Absence) AwaitProbe(now, silence uint64) (since, again uint64) {
	a.probe = true
	return a.await(now, silence)
}

// Probed is called when the peer is probed.
func (a *Absence) Probed() { a.since, a.probe = 0, false }

// await is Await for the time most.
func (a *Absence) await(now, most uint64) (since, again uint64) {
	if a.since == 0 {
		a.since, a.last, a.pause, a.waited = now, now, clock.Cycles(shortest), 0
	}
	a.waited += min(now-a.last, a.pause)
	if a.waited >= most {
		return a.since, 0
	}
	a.last, a.pause = now, min(max(a.pause, a.waited), most-a.waited)
	return a.since, now + a.pause
}

// Back ends the wait for a look. It returns how much more time the peer gets, once: as much as timers were
// late, at most the time of the attribute timeout.
func (a *Absence) Back(patience uint64) uint64 {
	a.since = 0
	if a.Given || a.missed == 0 {
		return 0
	}
	a.Given = true
	return min(a.missed, patience)
}
