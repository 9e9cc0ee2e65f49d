//go:build linux && (amd64 || arm64)

package metrics

// A ledger turns the counts of objects that come and go into series that only grow, and whose number is
// bounded. An object is a client of the engine, or a peer of a link; a series has the objects with the same
// labels. A series stays when its last object has gone, so that a program that runs again goes on with its
// counts, until another series needs its place.
//
// Objects that find no place are in the series rest, for as long as they live.
type ledger[ID comparable] struct {
	most      int // series, without rest
	mostOwner int // of these, series of one owner
	rest      *series
	series    map[labels]*series
	objects   map[ID]*object
	owners    map[string]int // series of each owner
	round     uint64
}

// labels are values of labels; the last of them can be empty.
type labels [3]string

// A series has the sums of its objects.
type series struct {
	labels labels
	owner  string
	counts []uint64  // since the ledger began
	gauges []float64 // of the objects that exist now
	live   int       // objects
	idle   uint64    // the round in which the last one had gone
}

// An object is known by what it had at the last look.
type object struct {
	series *series
	counts []uint64
	round  uint64
}

// An entry is an object as it is now. Objects of one owner can have no more than mostOwner series.
type entry[ID comparable] struct {
	id     ID
	labels labels
	owner  string
	counts []uint64
	gauges []float64
}

func newLedger[ID comparable](most, mostOwner, counts, gauges int, rest labels) *ledger[ID] {
	return &ledger[ID]{
		most: most, mostOwner: mostOwner, rest: newSeries(rest, "", counts, gauges),
		series: make(map[labels]*series), objects: make(map[ID]*object), owners: make(map[string]int),
	}
}

func newSeries(l labels, owner string, counts, gauges int) *series {
	return &series{labels: l, owner: owner, counts: make([]uint64, counts), gauges: make([]float64, gauges)}
}

// update takes all objects that exist now. No id may be there twice.
func (l *ledger[ID]) update(now []entry[ID]) {
	l.round++
	for _, e := range now {
		if o := l.objects[e.id]; o != nil {
			o.round = l.round
		}
	}
	for id, o := range l.objects {
		if o.round == l.round {
			continue
		}
		delete(l.objects, id)
		o.series.live--
		if o.series.live == 0 {
			o.series.idle = l.round
		}
	}
	for _, s := range l.all() {
		clear(s.gauges)
	}
	for i := range now {
		l.add(&now[i])
	}
}

// add adds what has happened to an object since the last look.
func (l *ledger[ID]) add(e *entry[ID]) {
	o := l.objects[e.id]
	if o == nil {
		o = &object{series: l.place(e), counts: make([]uint64, len(e.counts)), round: l.round}
		o.series.live++
		l.objects[e.id] = o
	}
	for i, n := range e.counts {
		before := o.counts[i]
		if n < before {
			before = 0 // the object has begun anew, as a link does after a fault
		}
		o.series.counts[i] += n - before
		o.counts[i] = n
	}
	for i, v := range e.gauges {
		o.series.gauges[i] += v
	}
}

// place returns the series for an object, and makes it if there is room or a series without objects.
func (l *ledger[ID]) place(e *entry[ID]) *series {
	if s := l.series[e.labels]; s != nil {
		return s
	}
	switch {
	case l.owners[e.owner] >= l.mostOwner:
		if !l.evict(func(s *series) bool { return s.owner == e.owner }) {
			return l.rest
		}
	case len(l.series) >= l.most:
		if !l.evict(func(*series) bool { return true }) {
			return l.rest
		}
	}
	s := newSeries(e.labels, e.owner, len(e.counts), len(e.gauges))
	l.series[e.labels] = s
	l.owners[e.owner]++
	return s
}

// evict removes the series that has been without objects for the longest time. It returns false if all that
// may go have objects.
func (l *ledger[ID]) evict(may func(*series) bool) bool {
	var oldest *series
	for _, s := range l.series {
		if s.live == 0 && may(s) && (oldest == nil || s.idle < oldest.idle) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.series, oldest.labels)
	l.owners[oldest.owner]--
	if l.owners[oldest.owner] == 0 {
		delete(l.owners, oldest.owner)
	}
	return true
}

// all returns the series that have had an object. rest is one of them only if it has had one.
func (l *ledger[ID]) all() []*series {
	list := make([]*series, 0, len(l.series)+1)
	for _, s := range l.series {
		list = append(list, s)
	}
	if l.rest.live > 0 || l.rest.idle > 0 {
		list = append(list, l.rest)
	}
	return list
}
