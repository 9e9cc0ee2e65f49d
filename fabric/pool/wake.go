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
	r        *pair
	mem      []byte
	listener *listener // nil: there is none
}

// A listener is the goroutine that waits for the peer's bell.
type listener struct {
	closed atomic.Bool   // it has to end
	done   chan struct{} // closed when it has ended
}

// waking is two words of a node's pair.
type waking struct {
	bell, asleep *shm.BE32
}

func wakingAt(mem []byte, at uint64) waking {
	return waking{shm.BE32At(mem, at+bellAt), shm.BE32At(mem, at+asleepAt)}
}

// listenAgain is how long awaitBell waits in the kernel at most, before it looks again. If the memory is lost
// nobody can wake the thread, so this is how long it stays then.
const listenAgain = time.Minute

func newWaker(r *pair) *waker {
	p, desc := r.l.p, &r.l.desc
	w := &waker{
		own: wakingAt(p.view.mem, r.at),
		// A random number: the peer may have answered the numbers of the waker before.
		sleeps: uint32(p.draw()),
		r:      r,
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
// listener.awaitBell of the peer.
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
	n, bell := &listener{done: make(chan struct{})}, w.peer.bell
	w.listener = n
	at, p := w.r.l.theirsAt()+bellAt, w.r.l.p
	go func() {
		defer close(n.done)
		err := p.guard(func() error { return n.awaitBell(bell, at, port) })
		if err != nil {
			w.r.failed.CompareAndSwap(nil, &err)
		}
	}()
}

// awaitBell notifies the device when the peer's bell, which is at an offset of the pool, has changed. It
// waits in the kernel, so it costs a thread, and no time. The error says that the memory is lost.
func (n *listener) awaitBell(bell *shm.BE32, at uint64, port nic.Port) error {
	last := bell.Observe()
	port.Arrived() // the bell may have rung before
	for !n.closed.Load() {
		if bell.Sleep(last, listenAgain) != nil {
			return &lostMemory{at: at}
		}
		if n.closed.Load() {
			return nil // the memory may be gone, and the pool closed
		}
		if now := bell.Observe(); now != last {
			last = now
			port.Arrived()
		}
	}
	return nil
}

// disconnect ends the goroutine of listen. The caller has taken care that the device does not use the port
// any more.
func (w *waker) disconnect() {
	n := w.listener
	if n == nil {
		return
	}
	w.listener = nil
	n.closed.Store(true)
	for {
		if w.peer.bell.Wake() != nil { // again if the listener was about to wait
			return // the memory is lost: the listener ends after listenAgain, and touches nothing until then
		}
		select {
		case <-n.done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
