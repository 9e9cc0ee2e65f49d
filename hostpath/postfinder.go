package hostpath

// A PostFinder finds the stacks of posts that a device has found, some time before. The device names a post
// by the lower 16 bits of its count, or, of a shared receive queue, by its entry, and finds posts in their
// order. So a post that was noted at the same place later is told from the one that is meant. A PostFinder is
// not safe for concurrent use, but the queue may be used meanwhile. The zero PostFinder finds no stack.
type PostFinder struct {
	posts    *Posts
	next     uint64 // the count of the next post is not less
	consumed uint64 // so many receives of a shared receive queue were consumed
	known    bool   // both are known
}

// NewPostFinder returns a PostFinder for the posts of a queue, which may be nil. fresh says that the device
// has found none of them yet.
func NewPostFinder(p *Posts, fresh bool) PostFinder { return PostFinder{posts: p, known: fresh} }

// Found returns the stack of the next post whose count has these lower 16 bits, or 0 if it is not noted any
// more. It is for send queues and receive queues.
func (f *PostFinder) Found(index uint16) Stack {
	if f.posts == nil {
		return 0
	}
	count, s := f.posts.At(uint64(index))
	if !f.known && uint16(count) == index {
		f.next, f.known = count, true
	}
	meant := f.next + uint64(index-uint16(f.next))
	if uint16(count) != index || count > meant {
		f.next = meant + 1 // a later post has taken its place
		return 0
	}
	f.next = count + 1 // less than meant if the queue was reset
	return s
}

// Next returns a count below which all posts were found: the least that the next one can have.
func (f *PostFinder) Next() uint64 { return f.next }

// Listed returns the stack of the next receive of a shared receive queue that the device has found in its
// list, at an entry, or 0 if it is not noted any more. The device can find a receive again that it has not
// consumed.
func (f *PostFinder) Listed(entry uint16) Stack {
	if f.posts == nil {
		return 0
	}
	count, s := f.posts.At(uint64(entry))
	most := max(f.next, f.consumed)
	if f.known && (count < f.consumed || count > most) {
		f.next = most + 1
		return 0
	}
	f.next = max(f.next, count+1)
	return s
}

// Consumed returns the stack of the next receive of a shared receive queue that the device has consumed, from
// an entry, or 0 if it is not noted any more.
func (f *PostFinder) Consumed(entry uint16) Stack {
	if f.posts == nil {
		return 0
	}
	count, s := f.posts.At(uint64(entry))
	if !f.known {
		f.consumed, f.known = count, true
	}
	f.consumed++
	f.next = max(f.next, f.consumed)
	if count+1 != f.consumed {
		return 0
	}
	return s
}

// Lose notes that it is not known which posts the device has found since.
func (f *PostFinder) Lose() { f.known = false }
