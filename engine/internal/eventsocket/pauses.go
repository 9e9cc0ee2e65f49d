//go:build linux && (amd64 || arm64)

package eventsocket

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// The kernel tells nobody on the device's thread that a client has made room in its socket, so the device
// tries again. The pauses between two tries grow, so that a client that never reads costs little, and a
// client that reads late gets its events at most about as much later as it was late.
const (
	// shortestPause is about as long as a short nap of a thread without work.
	shortestPause = 50 * time.Microsecond

	// longestPause bounds the cost of a socket that nobody reads: 10 tries in a second, of a microsecond
	// each. A client may have thousands.
	longestPause = 100 * time.Millisecond

	// unreadPause is the pause after which the client is told that it does not read. All pauses up to it
	// take 26 ms, and a program that is only busy has read by then.
	unreadPause = 12 * time.Millisecond
)

// A Pauses says how long a full socket is left alone. The zero value is of a socket with room.
type Pauses struct {
	length time.Duration
	until  uint64 // device clock
}

// Lengthen returns how long the next pause is.
func (p *Pauses) Lengthen() time.Duration {
	p.length = min(max(2*p.length, shortestPause), longestPause)
	return p.length
}

// Rest begins a pause of a full socket at a device clock. It reports, once, that the client does not read.
func (p *Pauses) Rest(now uint64) (unread bool) {
	before := p.length
	p.until = now + clock.Cycles(p.Lengthen())
	return before < unreadPause && p.length >= unreadPause
}

// After takes the result of a send at a device clock. If the socket is full, a pause begins; otherwise the
// next one is short again. unread is that of Rest.
func (p *Pauses) After(send error, now uint64) (full, unread bool) {
	if IsFull(send) {
		return true, p.Rest(now)
	}
	*p = Pauses{}
	return false, false
}

// Rests reports whether the socket is left alone now.
func (p *Pauses) Rests(now uint64) bool { return now < p.until }

// Until returns the device clock at which the socket is tried again.
func (p *Pauses) Until() uint64 { return p.until }
