package nicless

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A waker wakes an engine that sleeps. Whoever has announced work loads one word,
// which changes only when the engine falls asleep or wakes; that is all it costs.
type waker struct {
	asleep  *shm.Word64             // of the status page: which sleep it is, 0 for none
	last    atomic.Uint64           // the sleep that the engine was last woken from
	eventfd atomic.Pointer[os.File] // written to, it wakes the engine; nil: not given yet

	mu  sync.Mutex
	raw bool // others write to queues too, who do not look
}

// wake wakes the engine if it sleeps. It comes after what is announced.
//
// Observe: asleep, behind the store of a record or an arm word. The engine's
// barrier orders the two (docs/ORDERING.md, number 16).
func (w *waker) wake() {
	if sleep := w.asleep.Observe(); sleep != 0 && sleep != w.last.Load() {
		w.signal(sleep)
	}
}

// one is what an eventfd is struck by. Here it is not allocated each time.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// signal wakes the engine from a sleep: somebody has to, once.
func (w *waker) signal(sleep uint64) {
	if fd := w.eventfd.Load(); fd != nil {
		_, _ = fd.Write(one)
		w.last.Store(sleep)
	}
}

// offerWake promises the engine that posters of this context wake it.
// Until then it only takes naps.
func (c *client) offerWake() {
	if shm.JoinBarrier() != nil {
		return
	}
	w := &c.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.raw || c.err() != nil {
		return
	}
	r, err := c.dev.Call(control.OpWake, &control.Wake{Wakes: 1}, &control.Empty{})
	if err != nil || r.Wake == nil {
		return
	}
	w.eventfd.Store(r.Wake)
	w.signal(0) // whoever looked in the meantime had nothing to wake it by
	if c.closed.Load() {
		w.close()
	}
}

// retractWake takes the promise back.
func (c *client) retractWake() {
	_, _ = c.dev.Call(control.OpWake, &control.Wake{}, &control.Empty{})
}

// sharedRaw says that queues are written to by others, who do not look whether
// the engine sleeps.
func (c *client) sharedRaw() {
	w := &c.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.raw {
		return
	}
	w.raw = true
	if w.eventfd.Load() != nil {
		c.retractWake()
	}
}

func (w *waker) close() {
	if fd := w.eventfd.Swap(nil); fd != nil {
		_ = fd.Close()
	}
}
