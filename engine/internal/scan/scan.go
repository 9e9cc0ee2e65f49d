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
	// Rate is how many packets with numbers far from the expected one a path may have in each second, in
	// the long run, and stay open. At this rate a scan of all 2^24 numbers takes 9.1 hours. A peer sends no
	// such packets: 512 of them in a second would be 512 READs of more than 32 MiB that came too early.
	Rate = 512

	// Burst is how many such packets a path may have at once, and stay open. A queue pair that is connected
	// anew gets packets of its former connection: those that were on the way, about 1000 for a window of
	// 1 MiB. The chance that one of Burst tries has the expected number is 1 in 8192.
	Burst = 2048

	// PerOpening is how many packets are looked at each time a closed path opens, which is every 125 ms. A
	// peer whose packet was lost then gets a NAK, and sends the packet again within some 100 us. During a
	// scan of 100,000 numbers a second the path stays open for 640 us each time.
	PerOpening = 64

	// DoubtAfter is how many such packets make the path doubtful: then a packet that has the right number
	// and another mistake is more probably a stranger's than the peer's.
	DoubtAfter = 512
)

// A Limiter counts the packets of one path. The zero value is an open path. Not safe for concurrent use.
type Limiter struct {
	clear  uint64 // when the last counted packet stops counting, unless another packet is counted before
	begun  uint64 // when the first of the packets came that still count
	count  uint64 // number of packets counted since begun
	closed bool   // the path has closed, and was not opened since
}

// each is for how long one packet counts.
func each() uint64 { return clock.Cycles(time.Second / Rate) }

// Count counts a packet, and reports whether the path closes with it.
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

// StaysClosed reports whether the path is closed and is not to be opened yet.
func (l *Limiter) StaysClosed(now uint64) bool {
	return l.closed && l.left(now) > (Burst-PerOpening)*each()
}

// Open opens the path.
func (l *Limiter) Open() { l.closed = false }

// HasClosed reports whether the path has closed and was not opened since.
func (l *Limiter) HasClosed() bool { return l.closed }

// Doubtful reports whether so many packets count that any other packet may belong to a scan too.
func (l *Limiter) Doubtful(now uint64) bool { return l.left(now) >= DoubtAfter*each() }

// Counted returns how many packets have been counted since the scan began, and since when.
func (l *Limiter) Counted(now uint64) (count uint64, since time.Duration) {
	return l.count, clock.Duration(max(now, l.begun) - l.begun)
}

// IsOver reports whether no packet counts any more: the scan, if there was one, is over.
func (l *Limiter) IsOver(now uint64) bool { return now >= l.clear }
