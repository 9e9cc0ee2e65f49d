package nicless

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A waker wakes an engine that sleeps. A poster that has announced work loads one word,
// asleep, which changes only when the engine falls asleep or wakes. While the engine is
// awake, the poster does nothing else.
type waker struct {
	asleep  *shm.Word64             // in the status page: the number of the engine's sleep, 0 while it is awake
	last    atomic.Uint64           // the number of the last sleep that this client has ended
	eventfd atomic.Pointer[os.File] // a write to this file wakes the engine; nil: the engine has not sent it yet

	mu  sync.Mutex
	raw bool // other code writes to the queues too (QP.Raw), and does not read asleep
}

// wake wakes the engine if it sleeps. The caller has announced the work before.
//
// Observe: asleep, after the store of a record or an arm word. The engine's
// barrier orders the two (docs/ORDERING.md, number 16).
func (w *waker) wake() {
	if sleep := w.asleep.Observe(); sleep != 0 && sleep != w.last.Load() {
		w.signal(sleep)
	}
}

// one is the value written to an eventfd. It is a variable so that it is not allocated for
// each write.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// signal wakes the engine from the sleep with that number. One signal for each sleep is
// enough.
func (w *waker) signal(sleep uint64) {
	if fd := w.eventfd.Load(); fd != nil {
		_, _ = fd.Write(one)
		w.last.Store(sleep)
	}
}

// offerWake promises the engine that all posters of this context wake it. Without
// that promise the engine sleeps for short times only.
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
	w.signal(0) // for posters that found the engine asleep earlier, when there was no eventfd
	if c.closed.Load() {
		w.close()
	}
}

// retractWake takes back the promise of offerWake.
func (c *client) retractWake() {
	_, _ = c.dev.Call(control.OpWake, &control.Wake{}, &control.Empty{})
}

// sharedRaw records that other code writes to queues of this context without checking
// whether the engine sleeps. It takes back the promise to wake the engine.
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
