//go:build linux && (amd64 || arm64)

// Package scan limits how many packets with impossible numbers are looked at.
//
// A packet of a reliable connection must have the packet sequence number (PSN) that its receiver
// expects. A stranger who can send from the address of a peer, and knows everything but that number,
// tries all 2^24: a scan. Losses, repetitions and another order on the way make a peer's own packets
// come with numbers near the expected one, and hardly ever with others, so a packet far from it
// counts. When too many count, the path closes: its packets are not looked at for a while. Then it
// opens for a few packets, and closes again, as long as the scan lasts.
//
// All times are readings of the device clock, in cycles.
package scan

import (
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// The limits of a path.
const (
	// Rate is how many packets a second count for nothing in the long run. All 2^24 numbers take 9.1
	// hours then, however fast they are sent. A peer sends none: 512 in a second for a whole second
	// would be as many READs of more than 32 MiB, each of which came too early.
	Rate = 512

	// Burst is how many count for nothing at once. A queue pair that is connected anew gets packets of
	// its former connection: as many as were on the way, about 1000 for a window of 1 MiB. The chance
	// that one of as many tries hits is 1 in 8192.
	Burst = 2048

	// Door is how many packets are looked at when a path opens again, all 125 ms. A peer whose packet was
	// lost gets a NAK then, and sends it within some 100 us. During a scan of 100,000 numbers a second
	// the path stays open for 640 us.
	Door = 64

	// Doubt is how many make the path doubtful: a packet that has the right number and another mistake
	// is more probably a stranger's than the peer's.
	Doubt = 512
)

// A Limiter counts the packets of one path. The zero value is an open path. Not safe for concurrent use.
type Limiter struct {
	clear  uint64 // when no packet counts any more, if no other comes
	begun  uint64 // when the first packet came that counts still
	count  uint64 // packets since then
	closed bool
}

// each is for how long one packet counts.
func each() uint64 { return clock.Cycles(time.Second / Rate) }

// Count counts a packet. It reports whether the path closes with it.
func (l *Limiter) Count(now uint64) (closes bool) {
	if now >= l.clear {
		l.clear, l.begun, l.count = now, now, 0
	}
	l.count++
	l.clear += each()
	if l.closed || l.left(now) < Burst*each() {
		return false
	}
	l.closed = true
	return true
}

// left returns for how long the packets so far still count.
func (l *Limiter) left(now uint64) uint64 {
	if now >= l.clear {
		return 0
	}
	return l.clear - now
}

// Closed reports whether the path is closed and is not to be opened yet.
func (l *Limiter) Closed(now uint64) bool { return l.closed && l.left(now) > (Burst-Door)*each() }

// Open opens the path.
func (l *Limiter) Open() { l.closed = false }

// Shut reports whether the path has closed and was not opened since.
func (l *Limiter) Shut() bool { return l.closed }

// Doubtful reports whether so many packets count that any other may be of a scan, too.
func (l *Limiter) Doubtful(now uint64) bool { return l.left(now) >= Doubt*each() }

// Counted returns how many packets have been counted since the scan began, and since when.
func (l *Limiter) Counted(now uint64) (count uint64, since time.Duration) {
	return l.count, clock.Duration(max(now, l.begun) - l.begun)
}

// Calm reports whether no packet counts any more: the scan, if there was one, is over.
func (l *Limiter) Calm(now uint64) bool { return now >= l.clear }
