package latency

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
)

// mostPosts bounds the doorbells that wait for completions. The oldest are dropped: a program that signals
// no WQE has no latencies.
const mostPosts = 4096

// A post is blocks that one doorbell has announced.
type post struct {
	from, to uint64 // blocks, counted since RESET
	time     uint64 // device clock, in ticks
}

// A pairing finds, for each completion of a queue pair, the doorbell that has announced its WQE.
type pairing struct {
	queue uint32
	hz    uint64 // ticks of the device clock in a second
	seen  uint64 // blocks announced so far, counted since RESET
	posts []post // the oldest first
}

// newPairing returns a pairing for a queue pair, of which announced blocks have been announced before.
func newPairing(queue uint32, announced, hz uint64) *pairing {
	return &pairing{queue: queue, hz: max(hz, 1), seen: announced}
}

// extend returns the count of which the device has recorded the lower 16 bits: the nearest to p.seen.
func (p *pairing) extend(index uint16) uint64 {
	return p.seen + uint64(int64(int16(index-uint16(p.seen))))
}

// event takes an event of the queue pair, and calls found with the latencies of the completions in it.
func (p *pairing) event(e *trace.Event, found func(time.Duration)) {
	switch e.Kind {
	case trace.KindLost:
		p.posts = p.posts[:0] // completions of these may be among what is lost
	case trace.KindState:
		if e.Queue == p.queue {
			p.posts, p.seen = p.posts[:0], uint64(e.Index)
		}
	case trace.KindDoorbell:
		if e.Queue == p.queue {
			p.doorbell(e)
		}
	case trace.KindCQE:
		p.completions(e, found)
	}
}

// doorbell notes the blocks that were not announced before: the device records again those that it has not
// executed at its next visit.
func (p *pairing) doorbell(e *trace.Event) {
	from := p.extend(e.Index)
	to := from + uint64(e.Count)
	if int64(to-p.seen) <= 0 {
		return
	}
	if int64(from-p.seen) < 0 {
		from = p.seen
	}
	if len(p.posts) >= mostPosts {
		p.posts = append(p.posts[:0], p.posts[mostPosts/2:]...)
	}
	p.posts = append(p.posts, post{from: from, to: to, time: e.Time})
	p.seen = to
}

func (p *pairing) completions(e *trace.Event, found func(time.Duration)) {
	if len(e.Data) < cqe.Size {
		return
	}
	c := cqe.ParseCQE((*[cqe.Size]byte)(e.Data))
	if c.OpOwn.Opcode() != cqe.Req || c.QPN != p.queue {
		return
	}
	for i := range max(e.Count, 1) {
		if t, ok := p.posted(p.extend(c.Counter + i)); ok && e.Time >= t {
			found(time.Duration(float64(e.Time-t) * 1e9 / float64(p.hz)))
		}
	}
}

// posted returns when a block was announced. It drops older posts: completions come in order.
func (p *pairing) posted(block uint64) (ticks uint64, ok bool) {
	n := 0
	for n < len(p.posts) && int64(p.posts[n].to-block) <= 0 {
		n++
	}
	p.posts = append(p.posts[:0], p.posts[n:]...)
	if len(p.posts) == 0 || int64(p.posts[0].from-block) > 0 {
		return 0, false
	}
	return p.posts[0].time, true
}
