package sanitize

// A tree has the records of the memory of a process, ordered by their first bytes, and then by their age. It
// is a treap: priorities that nobody knows beforehand keep it as deep as a few times the logarithm of its
// size, whatever addresses programs choose. Each node knows the highest end below it, so that a search visits
// what overlaps and little else.
type tree struct {
	root *record
	seed uint64 // random
	last uint64 // serial number of the last record
}

// links are the place of a record in a tree.
type links struct {
	left, right *record
	serial      uint64
	priority    uint64
	highest     uint64 // the highest end of the records below, and of this one
}

// before reports whether a comes before b.
func before(a, b *record) bool {
	return a.from < b.from || (a.from == b.from && a.serial < b.serial)
}

// insert adds a record that is in no tree.
func (t *tree) insert(r *record) {
	t.last++
	r.links = links{serial: t.last, priority: scramble(t.last + t.seed), highest: r.end}
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

// overlapping calls f with each record that has a byte of m, and takes one of the budget for each. all is
// false if that was not enough, and some records are left out. f must not change the tree.
func (t *tree) overlapping(m span, b *budget, f func(*record)) (all bool) {
	return visit(t.root, m, b, f)
}

// A budget is how many records a search may still find.
type budget int

func visit(at *record, m span, b *budget, f func(*record)) (all bool) {
	for at != nil && at.highest > m.from {
		if !visit(at.left, m, b, f) {
			return false
		}
		if at.from >= m.end {
			return true
		}
		if at.end > m.from {
			if *b == 0 {
				return false
			}
			*b--
			f(at)
		}
		at = at.right
	}
	return true
}
