package await

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// all is the watch of Context and Deadline.
var all = watch{limit: Patience}

// A watch ends any number of waits whose patience is over. One goroutine reads the delays of threads for all
// of them, because a reading goes through all of /proc. It runs while there are waits, so a test that counts
// goroutines finds none when its waits have ended.
type watch struct {
	limit time.Duration

	mu      sync.Mutex
	waits   map[*wait]struct{}
	members int         // waits that have begun and not ended, including those whose patience is over
	now     *watchClock // nil: there are no members
}

// A wait is a member of a watch.
type wait struct {
	over  func()
	begun bool          // whether the clock has been read since the wait began
	from  time.Duration // time that the clock had counted at this reading
}

// A watchClock counts the time in which awaited work could go on.
type watchClock struct {
	patience *patience
	stop     chan struct{}
	stopped  chan struct{}
}

// begin begins a wait, and returns a function that ends it. over is called, once and by another goroutine,
// when patience is over before that.
func (w *watch) begin(over func()) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := &wait{over: over}
	w.members++
	if w.members == 1 {
		w.waits = make(map[*wait]struct{})
		p := begin(w.limit)
		p.most = period // one goroutine reads for all waits, so it may read often
		w.now = &watchClock{p, make(chan struct{}), make(chan struct{})}
		go w.run(w.now)
	}
	w.waits[one] = struct{}{}
	return sync.OnceFunc(func() { w.end(one) })
}

// end ends a wait. With the last one, the goroutine ends.
func (w *watch) end(one *wait) {
	w.mu.Lock()
	delete(w.waits, one)
	clock := w.now
	w.members--
	last := w.members == 0
	if last {
		w.now = nil
	}
	w.mu.Unlock()
	if last {
		close(clock.stop)
		<-clock.stopped
	}
}

// run is the goroutine that reads the delays. It ends the waits whose patience is over.
func (w *watch) run(clock *watchClock) {
	defer close(clock.stopped)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-clock.stop:
			return
		case <-tick.C:
			if clock.patience.look() {
				for _, one := range w.expired(clock) {
					one.over()
				}
			}
		}
	}
}

// expired removes the waits whose patience is over, and returns them, the oldest first. After a long look
// there may be several.
func (w *watch) expired(clock *watchClock) (list []*wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now != clock {
		return nil // the waits are those of another clock
	}
	counted := clock.patience.counted
	for one := range w.waits {
		switch {
		case !one.begun:
			one.begun, one.from = true, counted
		case counted-one.from >= w.limit:
			delete(w.waits, one)
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *wait) int { return cmp.Compare(a.from, b.from) })
	return list
}
