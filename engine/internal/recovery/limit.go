//go:build linux && (amd64 || arm64)

package recovery

import "github.com/nicless/nicless/packet"

// A Limit is how many packets of a queue pair may be on the way without an acknowledgement.
type Limit struct {
	Window   uint32 // the limit now
	Full     uint32 // the largest Window, which the port allows
	cnpAfter uint32 // PSN up to which packets must be acknowledged before another CNP counts
	grown    uint32 // packets acknowledged since the window grew
}

// Least is the smallest Window, in packets.
const Least = 2

// NewLimit returns the limit of a queue pair whose first packet has the PSN first.
func NewLimit(full, first uint32) Limit { return Limit{Window: full, Full: full, cnpAfter: first} }

// Grow makes a window that was too large once grow again: by one packet and an eighth for each window of
// packets that is acknowledged. n packets have been acknowledged.
func (l *Limit) Grow(n uint32) {
	if l.Window == l.Full {
		return
	}
	l.grown += n
	if l.grown >= l.Window {
		l.grown = 0
		l.Window = min(l.Window+1+l.Window/8, l.Full)
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
