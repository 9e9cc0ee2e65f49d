package sanitize

// A tree has the records of the memory of a process, ordered by their first bytes. It is a treap: priorities
// that look random keep it as deep as the logarithm of its size, whatever addresses programs choose. Each
// node knows the highest end below it, so that a search visits what overlaps and little else.
type tree struct {
	root *record
	next uint64 // gives priorities
}

// links are the place of a record in a tree.
type links struct {
	left, right *record
	priority    uint64
	highest     uint64 // the highest end of the records below, and of this one
}

// before reports whether a comes before b. Priorities tell records with the same first byte apart: all are
// different.
func before(a, b *record) bool {
	return a.from < b.from || (a.from == b.from && a.priority < b.priority)
}

// insert adds a record that is in no tree.
func (t *tree) insert(r *record) {
	t.next++
	r.links = links{priority: scramble(t.next), highest: r.end}
	t.root = insert(t.root, r)
}

// scramble returns another number for each number (the finalizer of SplitMix64).
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (r *record) renew() {
	r.highest = r.end
	for _, kid := range [...]*record{r.left, r.right} {
		if kid != nil {
			r.highest = max(r.highest, kid.highest)
		}
	}
}

func insert(at, r *record) *record {
	switch {
	case at == nil:
		return r
	case r.priority > at.priority:
		r.left, r.right = split(at, r)
		r.renew()
		return r
	case before(r, at):
		at.left = insert(at.left, r)
	default:
		at.right = insert(at.right, r)
	}
	at.renew()
	return at
}

// split divides the records below at into those before r and those after it.
func split(at, r *record) (left, right *record) {
	switch {
	case at == nil:
		return nil, nil
	case before(at, r):
		at.right, right = split(at.right, r)
		at.renew()
		return at, right
	}
	left, at.left = split(at.left, r)
	at.renew()
	return left, at
}

// remove removes a record that is in the tree.
func (t *tree) remove(r *record) {
	t.root = remove(t.root, r)
	r.links = links{}
}

func remove(at, r *record) *record {
	switch {
	case at == nil:
		return nil
	case at == r:
		return merge(at.left, at.right)
	case before(r, at):
		at.left = remove(at.left, r)
	default:
		at.right = remove(at.right, r)
	}
	at.renew()
	return at
}

// merge joins two trees, of which the first one has what comes before.
func merge(a, b *record) *record {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = merge(a.right, b)
		a.renew()
		return a
	}
	b.left = merge(a, b.left)
	b.renew()
	return b
}

// overlapping calls f with each record that has a byte in from..end-1. f must not change the tree.
func (t *tree) overlapping(from, end uint64, f func(*record)) { visit(t.root, from, end, f) }

func visit(at *record, from, end uint64, f func(*record)) {
	for at != nil && at.highest > from {
		visit(at.left, from, end, f)
		if at.from >= end {
			return
		}
		if at.end > from {
			f(at)
		}
		at = at.right
	}
}
