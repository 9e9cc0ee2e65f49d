package engine

import "sync"

// To close a descriptor that somebody else opened can take as long as he likes:
// a socket may linger, a file system may be his own program. So nobody waits for
// it, neither the device nor who ends it: it is closed on a goroutine that serves
// this user alone, one after another. What waits counts as his, so that in the
// end he is refused, and nobody else.

// A discard is the descriptors that wait to be closed, by user.
type discard struct {
	mu      sync.Mutex
	waiting map[uint32][]func() // by uid, modulo closers
}

// closers bounds the threads that may hang in somebody's close, well below what
// a Go program may have. It is prime to the steps in which users are numbered.
const closers = 1021

// discard has n descriptors closed that owe has counted.
func (e *Engine) discard(uid uint32, n int, closeAll func()) {
	d := &e.discarded
	d.mu.Lock()
	defer d.mu.Unlock()
	queue, working := d.waiting[uid%closers]
	if d.waiting == nil {
		d.waiting = make(map[uint32][]func())
	}
	d.waiting[uid%closers] = append(queue, func() {
		closeAll()
		e.shares.give(uid, bill{descriptors: n})
	})
	if !working {
		go d.work(uid % closers)
	}
}

// work closes what one user has waiting until there is no more.
func (d *discard) work(user uint32) {
	for {
		d.mu.Lock()
		queue := d.waiting[user]
		if len(queue) == 0 {
			delete(d.waiting, user)
			d.mu.Unlock()
			return
		}
		f := queue[0]
		queue[0] = nil
		d.waiting[user] = queue[1:]
		d.mu.Unlock()
		f()
	}
}
