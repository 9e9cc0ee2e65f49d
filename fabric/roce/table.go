//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// tableSize is how many paths a carrier can have.
const tableSize = 4096

// A table has all paths of a carrier. The low 12 bits of the number of a path are its place in the table,
// the high bits say how many paths have been at that place before. So no path has the number of one that has
// ended.
//
// A path that is held stays. Paths that are not held are in two lists, from the least recently used to the
// most recently used, and end when there are too many in a list; see strangers.go.
//
// The sender finds paths by number without a lock. Everything else is under the lock, which
// is not held during a system call.
type table struct {
	ect   bool
	guard *guard // nil: no keys
	most  [2]int // most paths that are not held, by origin

	slots [tableSize]atomic.Pointer[path]
	epoch atomic.Uint64 // counts paths that have ended

	changed   func()        // called, under the lock, when an address becomes known; does not wait
	newcomers atomic.Uint64 // counts addresses that have become known

	mu    sync.Mutex
	paths map[key]*path
	free  []uint32          // places without a path
	lives [tableSize]uint32 // how many paths have been at each place
	idle  [2]list           // paths that are not held, by origin
}

const lifeShift = 12

func newTable(c Config) *table {
	t := &table{ect: c.ECT, most: [2]int{c.Strangers, tableSize - c.Strangers}, paths: make(map[key]*path)}
	for i := range uint32(tableSize) {
		t.free = append(t.free, tableSize-1-i)
	}
	return t
}

// find returns the path with a number; nil if there is none.
func (t *table) find(number uint32) *path {
	if p := t.slots[number%tableSize].Load(); p != nil && p.number == number {
		return p
	}
	return nil
}

// hold returns the path with a key, and holds it. It makes the path if there is none. k.class has no ECN
// bits, and k.hops is not 0.
func (t *table) hold(k key, from *local) (*path, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, err := t.get(k, from, wanted)
	if err != nil {
		return nil, err
	}
	t.addRef(p)
	p.routes++
	return p, nil
}

// use returns the path with a key without holding it. It makes the path if there is none.
func (t *table) use(k key, from *local, who origin) (*path, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, err := t.get(k, from, who)
	if err == nil {
		t.touch(p)
	}
	return p, err
}

// known returns the path with a key for a caller that does not hold it; nil if there is none.
func (t *table) known(k key) *path {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.paths[k]
	if p != nil {
		t.touch(p)
	}
	return p
}

// peer returns the path with a key, if it is none of a stranger's, without noting a use.
func (t *table) peer(k key) *path {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.paths[k]; p != nil && !p.isStranger() {
		return p
	}
	return nil
}

// touch notes that a path is used now.
func (t *table) touch(p *path) {
	if p.refs == 0 {
		t.idle[p.origin].remove(p)
		t.idle[p.origin].add(p)
	}
}

// get returns the path with a key. It makes the path if there is none: a new path is not held. A path with
// another class or hop limit than the default holds its source path.
func (t *table) get(k key, from *local, who origin) (*path, error) {
	if p := t.paths[k]; p != nil {
		t.raiseOrigin(p, who)
		return p, nil
	}
	if from.removed {
		return nil, errNoAddress(from.addr)
	}
	var source *path
	if k.class != 0 || k.hops != defaultHops {
		base := k
		base.class, base.hops = 0, defaultHops
		var err error
		if source, err = t.get(base, from, who); err != nil {
			return nil, err
		}
		t.addRef(source)
	}
	if !t.makeRoom(who) {
		if source != nil {
			t.dropRef(source)
		}
		return nil, fmt.Errorf("roce: all %d paths are in use", tableSize)
	}
	p := newPath(k, from, t.ect)
	p.peer = t.guard.remote(k, from)
	at := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	p.origin = who
	p.number = at | t.lives[at]<<lifeShift
	t.lives[at]++
	p.source = source
	if source == nil {
		p.source = p
	}
	t.markRequested(p)
	t.paths[k] = p
	t.idle[who].add(p)
	t.slots[at].Store(p)
	return p, nil
}

// raiseOrigin notes that a path was requested. If it was a stranger's until now, it moves to the list of
// wanted paths, and so does its source path.
func (t *table) raiseOrigin(p *path, who origin) {
	if who <= p.origin {
		return
	}
	if p.refs == 0 {
		t.idle[p.origin].remove(p)
		t.idle[who].add(p)
	}
	p.origin = who
	t.markRequested(p)
	t.raiseOrigin(p.source, who)
	t.trim(who)
}

// markRequested notes that this engine has requested a path: its remote address is known from now on.
func (t *table) markRequested(p *path) {
	if p.origin == wanted && !p.requested.Swap(true) && p.source == p {
		t.newcomers.Add(1)
		if t.changed != nil {
			t.changed()
		}
	}
}

// makeRoom ends paths until there is a free place for a new path of an origin, and reports whether there is
// one. A new path of a stranger ends only other strangers' paths.
func (t *table) makeRoom(who origin) bool {
	for t.idle[who].n >= t.most[who] {
		t.end(t.idle[who].first)
	}
	for a := stranger; a <= who && len(t.free) == 0; a++ {
		for t.idle[a].first != nil && len(t.free) == 0 {
			t.end(t.idle[a].first)
		}
	}
	return len(t.free) > 0
}

// trim ends the least recently used paths of a list that has too many.
func (t *table) trim(who origin) {
	for t.idle[who].n > t.most[who] {
		t.end(t.idle[who].first)
	}
}

// addRef holds a path once more.
func (t *table) addRef(p *path) {
	if p.refs == 0 {
		t.idle[p.origin].remove(p)
	}
	p.refs++
}

// dropRef ends one hold of a path.
func (t *table) dropRef(p *path) {
	p.refs--
	if p.refs == 0 {
		t.idle[p.origin].add(p)
		t.trim(p.origin)
	}
}

// release ends one hold of the path with a number.
func (t *table) release(number uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.find(number); p != nil && p.routes > 0 {
		p.routes--
		t.dropRef(p)
	}
}

// end takes a path that is not held out of the table.
func (t *table) end(p *path) {
	t.idle[p.origin].remove(p)
	t.erase(p)
	if p.source != p {
		t.dropRef(p.source)
	}
}

func (t *table) erase(p *path) {
	at := p.number % tableSize
	t.slots[at].Store(nil)
	t.epoch.Add(1)
	delete(t.paths, p.key)
	t.free = append(t.free, at)
}

// endAll takes all paths of a local address out of the table, held or not. No new path from the address
// begins.
func (t *table) endAll(from *local) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from.removed = true
	for _, p := range t.paths {
		if p.from == from {
			if p.refs == 0 {
				t.idle[p.origin].remove(p)
			}
			p.refs, p.routes = 0, 0
			t.erase(p)
		}
	}
}

// each calls f for every path.
func (t *table) each(f func(*path)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.paths {
		f(p)
	}
}
