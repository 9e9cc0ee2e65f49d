//go:build linux && (amd64 || arm64)

package gpu

import (
	"maps"
	"slices"
	"time"
)

// A task is something that a stream does.
type task struct{ done chan struct{} }

// wait waits until a task is done; nil is done.
func (t *task) wait() {
	if t != nil {
		<-t.done
	}
}

// over reports whether a task is done.
func (t *task) over() bool {
	if t == nil {
		return true
	}
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// A Stream does tasks one after the other. The default stream has the handle 0 (or 1): a task of it waits for
// those of all streams that do not say otherwise, and theirs for it.
type Stream struct {
	device   *Device
	Handle   uint64
	Flags    uint32 // 1: it does not wait for the default stream
	Priority int
	tail     *task   // protected by the device's mutex, as waits
	waits    []*task // the next task waits for these, too
}

// NonBlocking is the flag of a stream that has nothing to do with the default stream.
const NonBlocking = 1

// NewStream makes a stream.
func (d *Device) NewStream(flags uint32, priority int) (*Stream, Code) {
	if flags&^NonBlocking != 0 {
		return nil, InvalidValue
	}
	t := &Stream{device: d, Handle: d.system.handle(), Flags: flags, Priority: priority}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams[t.Handle] = t
	return t, Success
}

// OfThread is the handle by which each thread of the program names its own default stream.
const OfThread = 2

// StreamOfThread returns the default stream of a thread of the program, by the thread's number. It waits for
// the default stream, and that for it, as a stream that NewStream makes; but it cannot be destroyed. made
// reports that the stream is new: it lives until ThreadEnds.
func (d *Device) StreamOfThread(thread int) (t *Stream, made bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t = d.threads[thread]
	if t == nil {
		t, made = &Stream{device: d, Handle: OfThread}, true
		d.threads[thread] = t
	}
	return t, made
}

// ThreadEnds drops the default streams of a thread when they have done everything. Another thread may have
// its number then.
func (s *System) ThreadEnds(thread int) {
	for _, d := range s.devices {
		d.mu.Lock()
		if t := d.threads[thread]; t != nil {
			delete(d.threads, thread)
			d.endLater(t)
		}
		d.mu.Unlock()
	}
}

// endLater keeps a stream until it has done everything. The device's mutex is held.
func (d *Device) endLater(t *Stream) {
	d.ending = append(slices.DeleteFunc(d.ending, (*Stream).over), t)
}

// Stream returns the stream with a handle. 1 stands for the default stream, too.
func (d *Device) Stream(handle uint64) (*Stream, Code) {
	if handle <= 1 {
		return &Stream{device: d}, Success
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.streams[handle]
	if t == nil {
		return nil, InvalidHandle
	}
	return t, Success
}

// Destroy ends a stream when its tasks are done. The caller does not wait for that, but those do who wait
// for the device, or for what the default stream waits for.
func (t *Stream) Destroy() Code {
	if t.Handle == 0 {
		return InvalidHandle
	}
	d := t.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams[t.Handle] != t {
		return InvalidHandle
	}
	delete(d.streams, t.Handle)
	d.endLater(t)
	return Success
}

// over reports whether a stream has done everything. The device's mutex is held.
func (t *Stream) over() bool { return t.tail.over() }

// all returns the streams that may have something to do, but for the default one. The mutex is held.
func (d *Device) all() []*Stream {
	made, own := slices.Collect(maps.Values(d.streams)), slices.Collect(maps.Values(d.threads))
	return slices.Concat(made, own, d.ending)
}

// add lets a stream do something. If the device is broken, nothing is done any more.
func (t *Stream) add(do func()) Code {
	t.device.mu.Lock()
	defer t.device.mu.Unlock()
	_, c := t.queue(do)
	return c
}

// queue is add with the device's mutex held, and returns the task.
func (t *Stream) queue(do func()) (*task, Code) {
	d := t.device
	if d.broken != Success {
		return nil, d.broken
	}
	before := t.before()
	now := &task{make(chan struct{})}
	if t.Handle == 0 {
		d.tail = now
	} else {
		t.tail, t.waits = now, nil
	}
	go func() {
		defer close(now.done)
		for _, b := range before {
			b.wait()
		}
		if d.Err() == Success {
			do()
		}
	}()
	return now, Success
}

// before returns the tasks for which the next one waits. The device's mutex is held.
func (t *Stream) before() []*task {
	d := t.device
	list := []*task{d.tail}
	switch {
	case t.Handle == 0:
		for _, o := range d.all() {
			if o.Flags&NonBlocking == 0 {
				list = append(list, o.tail)
			}
		}
	case t.Flags&NonBlocking != 0:
		list = []*task{t.tail}
	default:
		list = append(list, t.tail)
	}
	list = append(list, t.waits...)
	return slices.DeleteFunc(list, (*task).over)
}

// last returns the tasks that a stream has to do before it has done everything.
func (t *Stream) last() []*task {
	t.device.mu.Lock()
	defer t.device.mu.Unlock()
	return t.before()
}

// Synchronize waits until the stream has done everything.
func (t *Stream) Synchronize() Code {
	for _, l := range t.last() {
		l.wait()
	}
	return t.device.Err()
}

// Query reports whether the stream has done everything: Success, or NotReady.
func (t *Stream) Query() Code {
	if c := t.device.Err(); c != Success {
		return c
	}
	if len(t.last()) > 0 {
		return NotReady
	}
	return Success
}

// Synchronize waits until all streams of the device have done everything.
func (d *Device) Synchronize() Code {
	d.mu.Lock()
	list := []*task{d.tail}
	for _, t := range d.all() {
		list = append(list, t.tail)
	}
	d.mu.Unlock()
	for _, t := range list {
		t.wait()
	}
	return d.Err()
}

// Call lets a stream call a function of the host.
func (t *Stream) Call(f func()) Code { return t.add(f) }

// An Event is a point in a stream.
type Event struct {
	device *Device
	Handle uint64
	Flags  uint32
	at     *task
	when   *time.Time // when at was done, once it is
}

// DisableTiming is the flag of an event that has no time.
const DisableTiming = 2

// NewEvent makes an event. One that was not recorded is over.
func (d *Device) NewEvent(flags uint32) *Event {
	e := &Event{device: d, Handle: d.system.handle(), Flags: flags}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events[e.Handle] = e
	return e
}

// Event returns the event with a handle, of any device.
func (s *System) Event(handle uint64) (*Event, Code) {
	for _, d := range s.devices {
		d.mu.Lock()
		e := d.events[handle]
		d.mu.Unlock()
		if e != nil {
			return e, Success
		}
	}
	return nil, InvalidHandle
}

// Destroy ends an event.
func (e *Event) Destroy() Code {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	delete(e.device.events, e.Handle)
	return Success
}

// Record puts an event after everything that a stream of its device has been told to do.
func (e *Event) Record(t *Stream) Code {
	d := t.device
	if e.device != d {
		return InvalidHandle
	}
	when := new(time.Time)
	d.mu.Lock()
	defer d.mu.Unlock()
	now, c := t.queue(func() { *when = time.Now() })
	if c == Success {
		e.at, e.when = now, when
	}
	return c
}

func (e *Event) task() *task {
	at, _ := e.recorded()
	return at
}

// recorded returns the task of the last Record, and when it was done.
func (e *Event) recorded() (at *task, when *time.Time) {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	return e.at, e.when
}

// Synchronize waits until the event has come.
func (e *Event) Synchronize() Code {
	e.task().wait()
	return e.device.Err()
}

// Query reports whether the event has come: Success, or NotReady.
func (e *Event) Query() Code {
	if c := e.device.Err(); c != Success {
		return c
	}
	if !e.task().over() {
		return NotReady
	}
	return Success
}

// Since returns the milliseconds between two events of one device.
func (e *Event) Since(begin *Event) (float32, Code) {
	first, from := begin.recorded()
	last, to := e.recorded()
	switch {
	case first == nil || last == nil || e.device != begin.device:
		return 0, InvalidHandle
	case (e.Flags|begin.Flags)&DisableTiming != 0:
		return 0, InvalidHandle
	case !first.over() || !last.over():
		return 0, NotReady
	}
	return float32(to.Sub(*from).Seconds() * 1000), Success
}

// WaitFor lets the next tasks of a stream wait for an event.
func (t *Stream) WaitFor(e *Event) Code {
	at := e.task()
	if at.over() {
		return Success
	}
	if t.Handle == 0 {
		return t.add(at.wait)
	}
	t.device.mu.Lock()
	defer t.device.mu.Unlock()
	t.waits = append(t.waits, at)
	return Success
}
