//go:build linux && (amd64 || arm64)

package inject

import (
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/wqe"
)

// A Link is what rules do to the packets that a queue pair gives to links.
type Link struct {
	packets []counter // of packets, one for each Rules that can act
	cut     cut
	atomics [atomics]uint32 // by PSN modulo atomics: PSN<<8 | opcode of an atomic that the peer has requested
}

// A cut is a time in which all packets are lost.
type cut struct {
	by      *Rules // whose rule; nil: there is no cut
	rule    *fault.Rule
	until   uint64 // device clock
	forever bool
	lost    uint64 // packets, without the first
}

// atomics is how many atomics Link knows apart. A peer has at most 32 unanswered; READs between them use up
// PSNs, too.
const atomics = 256

// OnWQEs reports whether there are rules that act on WQEs.
func (q *QueuePair) OnWQEs() bool { return q != nil && len(q.work) > 0 }

// OnPackets reports whether there are rules that act on packets.
func (q *QueuePair) OnPackets() bool { return q != nil && q.Link != nil }

// Next counts a packet, and returns the rule that acts on it, if ok. A rule that cuts the link has then cut
// it. f.Since is set by Next.
func (l *Link) Next(now uint64, f *fault.Facts) (hit fault.Hit, ok bool) {
	for _, c := range l.packets {
		f.Since = c.rules.Age(now)
		h, acts := c.Next(f, ok)
		if !acts {
			continue
		}
		hit, ok = h, true
		if d := h.Rule.Cut; d != 0 {
			l.cut = cut{by: c.rules, rule: h.Rule, until: clock.After(now, time.Duration(d)),
				forever: d == fault.Forever}
		}
	}
	return hit, ok
}

// Cut reports whether a packet is lost because the link is cut. It is called for each packet before Next, so
// rules do not count packets that a cut loses. The first packet after a cut gets the rule that has cut the
// link, and how many packets were lost, without the first.
func (l *Link) Cut(now uint64) (is bool, over *fault.Rule, lost uint64) {
	c := &l.cut
	switch {
	case c.by == nil:
		return false, nil, 0
	case c.forever || now < c.until:
		c.lost++
		return true, nil, 0
	}
	over, lost = c.rule, c.lost
	*c = cut{}
	return false, over, lost
}

// NoteAtomic notes the opcode of an atomic that the peer requests. The answer does not say it.
func (l *Link) NoteAtomic(psn uint32, op wqe.Opcode) { l.atomics[psn%atomics] = psn<<8 | uint32(op) }

// Atomic returns the opcode of the atomic with this PSN: a FETCH_ADD if it is not known.
func (l *Link) Atomic(psn uint32) wqe.Opcode {
	if a := l.atomics[psn%atomics]; a>>8 == psn && a != 0 {
		return wqe.Opcode(a)
	}
	return wqe.OpAtomicFA
}

// addLink adds the rules for packets of r, if there are any for this source.
func addLink(q *QueuePair, r *Rules, from *fault.Source) *QueuePair {
	c := r.Counter(fault.OnPacket, from)
	if c == nil {
		return q
	}
	if q == nil {
		q = new(QueuePair)
	}
	if q.Link == nil {
		q.Link = new(Link)
	}
	q.Link.packets = append(q.Link.packets, counter{r, c})
	return q
}

// removeLink takes the rules for packets of r away, and ends their cut.
func (q *QueuePair) removeLink(r *Rules) {
	l := q.Link
	if l == nil {
		return
	}
	l.packets = without(l.packets, r)
	if l.cut.by == r {
		l.cut = cut{}
	}
	if len(l.packets) == 0 {
		q.Link = nil
	}
}
