package hostpath

import "sync/atomic"

// A queue made with SQConfig.Stacks, RQConfig.Stacks or SRQConfig.Stacks notes where each of its requests was
// posted, for errors of completions and for the sanitizer. All WQEs of a send queue are then built by
// layLong, so that the queues without Stacks pay nothing. Noting a stack takes about a microsecond, and
// allocates nothing.

// fewestPosts is how many posts of a queue are noted at least, because the sanitizer looks for a stack some
// milliseconds after the post.
const fewestPosts = 1 << 12

// Posts are the stacks of the last posts of a queue. The posters of the queue write them. Any goroutine may
// read them at any time.
type Posts struct {
	words []atomic.Uint64 // count<<16 | stack, each at its place; their number is a power of two
}

// newPosts returns room for the last n posts, n a power of two, and more if n is small.
func newPosts(n uint64) *Posts { return &Posts{make([]atomic.Uint64, max(n, fewestPosts))} }

// note notes that the function which called the caller of note has posted a request. count says which post of
// the queue that is, of 48 bits.
func (p *Posts) note(place, count uint64) {
	p.words[place&uint64(len(p.words)-1)].Store(count<<16 | uint64(stackHere()))
}

// At returns the newest post that was noted at a place. For a send queue, place and count are the count of
// the first block of the WQE; for a receive queue, the count of the receive; for a shared receive queue,
// place is the index of the entry, and count the number of receives that were posted before. Only the lower
// 15 bits of a place count. If nothing was noted there, the result is zero.
func (p *Posts) At(place uint64) (count uint64, s Stack) {
	w := p.words[place&uint64(len(p.words)-1)].Load()
	return w >> 16, Stack(w)
}

// stack returns where the request with a count was posted, or zero if that is not known.
func (p *Posts) stack(count uint64) Stack {
	if p == nil {
		return 0
	}
	if n, s := p.At(count); n == count {
		return s
	}
	return 0
}

// Posts returns the stacks of the queue's posts, or nil if the queue notes none.
func (q *SendRing) Posts() *Posts { return q.posts }

// Posts returns the stacks of the queue's posts, or nil if the queue notes none.
func (q *RQ) Posts() *Posts { return q.posts }

// Posts returns the stacks of the queue's posts, or nil if the queue notes none.
func (q *SRQ) Posts() *Posts { return q.posts }
