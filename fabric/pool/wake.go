package pool

import (
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// A waker ends the sleep of an engine on the same host. This is impossible between hosts: there
// the engine takes naps.
//
// Before an engine sleeps, it publishes the number of the sleep (asleep) in its node's pair that names the
// peer, executes a memory barrier on the peer's threads, and looks at its ring once more. The peer loads
// asleep after it has published packets. If the peer finds a number that it has not answered yet, it stores
// the number in its own pair (bell) and wakes the waiters for bell by a futex: a goroutine of the sleeper's
// process waits there. The order of these steps is that of docs/ORDERING.md, number 16.
type waker struct {
	own  waking // this node's half: written by the engine's thread while the link is up
	peer waking // the peer's half: only read

	// Only the engine's thread uses these.
	answered uint32 // number of the peer's sleep that this node has ended last
	sleeps   uint32 // number of the last sleep of this node's engine

	sameHost bool // the two nodes run under one kernel, and the memory has futexes
	wakesUs  bool // the peer looks at asleep of this node after it has published packets
	guard    func(func() error) error
	mem      []byte
	closed   atomic.Bool   // the goroutine of listen has to end
	done     chan struct{} // closed when that goroutine has ended; nil: there is none
}

// waking is two words of a node's pair.
type waking struct {
	bell, asleep *shm.BE32
}

func wakingAt(mem []byte, at uint64) waking {
	return waking{shm.BE32At(mem, at+bellAt), shm.BE32At(mem, at+asleepAt)}
}

// listenAgain is how long awaitBell waits in the kernel at most, before it looks again. Each look of the
// thread costs as much as 60 system calls of the Go runtime. If the memory is gone nobody can wake the
// thread, so this is how long a link then takes to end.
const listenAgain = 5 * time.Second

func newWaker(r *pair) *waker {
	p, desc := r.l.p, &r.l.desc
	w := &waker{
		own: wakingAt(p.view.mem, r.at),
		// A random number: the peer may have answered the numbers of the waker before.
		sleeps: uint32(p.draw()),
		guard:  p.guard,
		mem:    p.view.mem,
	}
	w.own.asleep.Publish(0)
	if p.host != 0 && p.host == desc.host {
		w.sameHost = w.own.bell.Sleep(w.own.bell.Observe()+1, time.Nanosecond) == nil
		w.wakesUs = w.sameHost && desc.wakes
	}
	return w
}

// configure gives a port the functions that wake.
func (w *waker) configure(cfg *nic.PortConfig) {
	if w.sameHost {
		cfg.Wake = w.wake
	}
	if w.wakesUs {
		cfg.Asleep = w.setAsleep
	}
}

// wake wakes the peer's engine if it sleeps. The engine's thread calls it after it has published
// packets. There is one system call for each sleep of the peer's, and none while the peer is awake.
//
// Observe: asleep of the peer, published by waker.setAsleep. Publish: bell, observed by
// waker.awaitBell of the peer.
func (w *waker) wake() {
	sleep := w.peer.asleep.Observe()
	if sleep == 0 || sleep == w.answered {
		return
	}
	w.answered = sleep
	w.own.bell.Publish(sleep)
	_ = w.own.bell.Wake()
}

// setAsleep is PortConfig.Asleep.
func (w *waker) setAsleep(asleep bool) {
	if !asleep {
		w.own.asleep.Publish(0)
		return
	}
	w.sleeps = max(1, w.sleeps+1) // never 0
	w.own.asleep.Publish(w.sleeps)
}

// connect names the peer's pair. The link is down.
func (w *waker) connect(theirs uint64) {
	w.peer, w.answered = wakingAt(w.mem, theirs), 0
	w.own.asleep.Publish(0)
}

// listen starts the goroutine that waits for the peer's bell. The link is up, and the device has the port.
func (w *waker) listen(port nic.Port) {
	if !w.wakesUs {
		return
	}
	done, bell := make(chan struct{}), w.peer.bell
	w.done = done
	w.closed.Store(false)
	go func() {
		defer close(done)
		_ = w.guard(func() error { w.awaitBell(bell, port); return nil })
	}()
}

// awaitBell notifies the device when the peer's bell has changed. It waits in the kernel, so it costs a
// thread, and no time.
func (w *waker) awaitBell(bell *shm.BE32, port nic.Port) {
	last := bell.Observe()
	port.Arrived() // the bell may have rung before
	for !w.closed.Load() {
		if bell.Sleep(last, listenAgain) != nil {
			return // the memory is gone
		}
		if now := bell.Observe(); now != last {
			last = now
			port.Arrived()
		}
	}
}

// disconnect ends the goroutine of listen. The caller has taken care that the device does not use the port
// any more.
func (w *waker) disconnect() {
	if w.done == nil {
		return
	}
	w.closed.Store(true)
	for {
		_ = w.peer.bell.Wake() // again if the listener was about to wait
		select {
		case <-w.done:
			w.done = nil
			return
		case <-time.After(time.Millisecond):
		}
	}
}
