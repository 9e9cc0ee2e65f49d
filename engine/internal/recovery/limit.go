//go:build linux && (amd64 || arm64)

package recovery

import "github.com/nicless/nicless/packet"

// A Limit is how many packets of a queue pair may be on the way without an acknowledgement.
type Limit struct {
	Window   uint32 // the limit now
	Full     uint32 // the largest Window on short paths, which the port allows
	Span     uint32 // how far the packets may be apart that are not acknowledged
	Rounds   bool   // Window follows the round trips of a long path
	cnpAfter uint32 // PSN up to which packets must be acknowledged before another CNP counts
	grown    uint32 // packets acknowledged since the window grew
	lossy    bool   // the window has become smaller by Lose, and has not been Full since
	resends  bool   // READs are requested again, and no round is under way

	Selective bool   // only what is lost is sent again, and Away counts
	Probing   bool   // packets are sent again to make the peer answer; the window does not keep them
	Away      uint32 // packets not acknowledged and not on the way: the peer has them, or they are lost
}

// Least is the smallest Window, in packets.
const Least = 2

// NewLimit returns the limit of a queue pair whose first packet has the PSN first.
func NewLimit(full, first uint32) Limit {
	return Limit{Window: full, Full: full, Span: full, cnpAfter: first}
}

// Grow makes a window that was too large once grow again: by one packet and an eighth for each window of
// packets that is acknowledged. n packets have been acknowledged.
func (l *Limit) Grow(n uint32) {
	if l.Window >= l.Full || l.Rounds && !l.resends {
		return
	}
	l.grown += n
	if l.grown >= l.Window {
		l.grown = 0
		by := l.Window / 8
		if l.lossy {
			by = l.Window / 32 // so less than 3 of 100 packets lost do not keep the window small
		}
		l.Window = min(l.Window+1+by, l.Full)
		l.lossy = l.lossy && l.Window < l.Full
	}
}

// Marked shrinks the window, because a CNP says that the network marks packets. una is the oldest PSN that is
// not acknowledged, most the PSN after the highest that was sent. Further CNPs do not shrink it until a
// packet is acknowledged that was sent later. So any number of CNPs, from any sender, slow a queue pair down
// and do not stop it.
func (l *Limit) Marked(una, most uint32) {
	if packet.DiffPSN(una, l.cnpAfter) < 0 && packet.DiffPSN(l.cnpAfter, most) <= 1 {
		return
	}
	l.cnpAfter = packet.AddPSN(most, 1)
	l.Shrink()
}

// Shrink makes the window smaller, because packets were lost.
func (l *Limit) Shrink() { l.Window, l.grown = max(l.Window/2, Least), 0 }

// Lose makes the window smaller by the number of packets that were lost, at most to a half. A network that is
// overloaded loses as much as it could not take. A network that loses a few packets of
// hundred whatever it carries costs little.
func (l *Limit) Lose(n uint32) {
	l.Window = max(l.Window-min(n, l.Window/2), Least)
	l.grown, l.lossy = 0, true
}

// leastConfined is the smallest Window of Confine: when one answer is lost, few that were requested with it
// have come for nothing.
const leastConfined = 16

// Confine makes the window no larger than the number of packets that can be kept. Otherwise all those after
// a lost one are requested, and dropped, again and again.
func (l *Limit) Confine(room int) {
	if most := max(uint32(room), leastConfined); l.Window > most {
		l.Window, l.grown, l.lossy = most, 0, true
	}
}

// Fits reports whether n more packets of an answer may be requested together, of which no more than Span can
// be kept. una is the oldest PSN that is not acknowledged,
// next that of the first of them. If none is on the way, any number may.
func (l *Limit) Fits(una, next, n uint32) bool {
	ahead := packet.DiffPSN(next, una)
	if ahead <= 0 {
		return true
	}
	if !l.Selective {
		return ahead+int32(n) <= int32(min(l.Window, l.Span))
	}
	on := ahead - int32(l.Away)
	return ahead+int32(n) <= int32(l.Span) && (on <= 0 || on+int32(n) <= int32(l.Window))
}

// Part returns how many packets of an answer are requested together, by a queue pair that may have a number
// of requests on the way: on a short path as many as the window has. On a long path a round trip passes until
// the answer to the next request comes, so several are on the way.
func (l *Limit) Part(requests uint8) uint32 {
	if l.Long() && requests > largeParts {
		return max(min(l.Window, l.Span)/min(uint32(requests), longParts), leastPart)
	}
	return max(min(l.Window, l.Full), min(l.Full, leastPart))
}

const (
	leastPart = 16 // if the window is smaller
	longParts = 8  // requests in a window on a long path: a READ that is longer has 16 of them at most
)

// Long reports whether the packets may be farther apart than on a short path.
func (l *Limit) Long() bool { return l.Span > l.Full }

// Spared returns how many packets on a long path do not count, because they are not on the way.
func (l *Limit) Spared() uint32 {
	if l.Rounds && l.Selective {
		return l.Away
	}
	return 0
}

// Shut reports whether the window is closed while Selective holds. una is the oldest PSN that is not
// acknowledged, next that of the packet that is sent next, most the one after the highest that was sent.
func (l *Limit) Shut(una, next, most uint32) bool {
	all := packet.DiffPSN(most, una)
	if next == most && all >= int32(l.Span) {
		return true
	}
	if next != most && l.Probing {
		return false
	}
	return all-int32(l.Away) >= int32(l.Window)
}
