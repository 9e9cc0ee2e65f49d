package nicless

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// A driver steps a device that has no thread, for package niclesstest. Its clients are in this process. The
// device clock is held between steps: it is the time of a testing/synctest bubble, or what advance makes of
// it.
//
// In a bubble, time passes only when each goroutine of the bubble is blocked on something that another of
// them ends. So nothing here blocks in a system call: events are read without waiting after the device has
// been stepped, and the goroutines that wait for them wait on a channel of Go.
type driver struct {
	dev    nic.Stepper
	bubble bool      // time is that of the bubble; otherwise advance makes it pass
	begin  time.Time // when the driver began, in a bubble
	base   uint64    // the device clock then

	kicked chan struct{} // has an element if there may be work
	stop   chan struct{} // closed at the end
	ended  chan struct{} // closed when the goroutine of the driver has ended

	stepping sync.Mutex    // held while the device is stepped
	passed   time.Duration // by advance
	sleeps   uint64        // number of the last sleep

	mu      sync.Mutex
	clients map[*client]struct{}
	changed chan struct{} // closed, and replaced, when the device has been stepped
	after   func()        // is called when the device has been stepped; or nil
}

// A driven is a device that may have a driver.
type driven interface{ drivenBy() *driver }

// newDriver returns a driver, which has begun to drive.
func newDriver(dev nic.Stepper, bubble bool) *driver {
	d := &driver{dev: dev, bubble: bubble, begin: time.Now(), base: max(clock.Now(), 1),
		kicked: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		clients: make(map[*client]struct{}), changed: make(chan struct{})}
	d.hold()
	go d.drive()
	return d
}

// kick says that there may be work. It never blocks.
func (d *driver) kick() {
	select {
	case d.kicked <- struct{}{}:
	default:
	}
}

// A suspicion is explained when the device has found the same twice, with half a second between
// (report.SuspicionTime). So after work the driver looks a few times more, though no timer runs. It does not
// do so for ever: a program that waits for what never comes is found by the bubble, which has nothing left
// that could end the wait.
const (
	glanceTime = 600 * time.Millisecond
	glances    = 2
)

// drive steps the device when there may be work and when a timer runs out.
func (d *driver) drive() {
	defer close(d.ended)
	for glanced := 0; ; {
		done, next := d.stepAll()
		if done > 0 {
			glanced = 0
		}
		if glanced < glances {
			next = min(next, glanceTime)
		}
		switch d.wait(next) {
		case stopped:
			return
		case kicked:
			glanced = 0
		case due:
			glanced++
		}
	}
}

// The reasons for which a wait of the driver ends.
const (
	stopped = iota
	kicked
	due
)

// wait waits for a kick, for the end, or, in a bubble, until a timer runs out.
func (d *driver) wait(next time.Duration) (why int) {
	var late <-chan time.Time
	if d.bubble && next < forever {
		t := time.NewTimer(next)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-d.stop:
		return stopped
	case <-d.kicked:
		return kicked
	case <-late:
		return due
	}
}

// forever is the time until a timer that does not run.
const forever = time.Duration(1<<63 - 1)

// stepAll steps the device until there is nothing to do now, delivers its events, and returns how much was
// done and how long it takes until the first timer runs out.
func (d *driver) stepAll() (done int, next time.Duration) {
	d.stepping.Lock()
	done, next = d.stepNow()
	d.stepping.Unlock()
	d.deliver()
	return done, next
}

// stepNow is the part of stepAll for which stepping is held.
func (d *driver) stepNow() (done int, next time.Duration) {
	d.setClock()
	d.sleeps++
	done, cycles := d.dev.StepAll(d.sleeps)
	next = forever
	if cycles != ^uint64(0) {
		// A nanosecond more, because both conversions round down: the device would otherwise be a
		// cycle early.
		next = min(clock.Duration(cycles), forever-1) + 1
	}
	return done, next
}

// hold sets the device clock to the present time.
func (d *driver) hold() {
	d.stepping.Lock()
	defer d.stepping.Unlock()
	d.setClock()
}

// setClock is hold for a caller that holds stepping.
func (d *driver) setClock() {
	now := d.passed
	if d.bubble {
		now = time.Since(d.begin)
	}
	d.dev.Hold(d.base + clock.Cycles(now))
}

// advance lets the time pass, and does what is due on the way at its time.
func (d *driver) advance(by time.Duration) {
	if d.bubble {
		time.Sleep(by)
		d.stepAll()
		return
	}
	for left := by; ; {
		d.stepping.Lock()
		_, next := d.stepNow()
		next = min(next, glanceTime, left)
		d.passed += next
		d.stepping.Unlock()
		d.deliver()
		if left == 0 {
			return
		}
		left -= next
	}
}

// end ends the driver. Its clients are closed already.
func (d *driver) end() {
	close(d.stop)
	<-d.ended
}

func (d *driver) add(c *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[c] = struct{}{}
}

func (d *driver) remove(c *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clients, c)
}

// deliver delivers events, and tells the goroutines that wait in next.
func (d *driver) deliver() {
	d.mu.Lock()
	list := make([]*client, 0, len(d.clients))
	for c := range d.clients {
		list = append(list, c)
	}
	after := d.after
	d.mu.Unlock()
	if after != nil {
		after()
	}
	for _, c := range list {
		c.readEvents()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
}

// next reads the next event of ch, as Channel.next does.
func (d *driver) next(ctx context.Context, ch *Channel) (*CQ, error) {
	for {
		d.mu.Lock()
		changed := d.changed // taken before the read, so that no event is missed between the two
		d.mu.Unlock()
		if q, err := ch.Poll(); q != nil || err != nil {
			return q, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ch.ctx.ended:
			return nil, ch.ended()
		}
	}
}

// readEvents delivers the events that have come, without waiting for more.
func (c *client) readEvents() {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		var in [control.MaxMessage]byte
		n := readNow(c.events, in[:])
		if n <= 0 {
			return
		}
		c.parse(in[:n])
	}
}

// readNow reads from f what is there, and returns 0 if there is nothing.
func readNow(f *os.File, b []byte) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool {
		for {
			if n, err = readFD(int(fd), b); err != syscall.EINTR {
				return true
			}
		}
	})
	return n
}
