package engine

import (
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
)

// Memory of a client can hold up the thread that touches it: a page that has to be
// fetched or cleared, a hole that somebody is punching. All clients wait meanwhile.
// So the lane reads the device clock at the beginning and the end of each visit that
// works, and at the end of each batch of steps. What took longer than slowTime is
// looked into: usage.go tells memory from the scheduler. See design/0019.

// slowTime is how long a visit, or all looks between two of them, may take.
const slowTime = time.Millisecond

// slowRequest is how long a request may take: the kernel counts page faults of the
// engine's own memory too, of which requests take some.
const slowRequest = 10 * time.Millisecond

// nearTime is for how long each look is timed by itself, after looks at records have
// taken too long and nobody knew which.
const nearTime = 10 * time.Second

// A progress is what others may know of a lane at any time: the watchdog, above all.
// Its words are written by whoever works for the lane.
//
// Publish: at, mark, busy, thread. Observed by watchdog.look.
type progress struct {
	_      [64]byte
	at     shm.Word64 // whose memory is touched: a QPN, or a CQN with atCQ
	mark   shm.Word64 // device clock when the lane was last known to move on
	busy   shm.Word64 // 1: in a batch of steps, else it touches nothing
	thread shm.Word64 // number of its thread; 0: nobody runs it
	_      [64]byte
}

// atCQ is a bit of progress.at.
const atCQ = 1 << 32

// A pace is what a lane knows of its own progress.
type pace struct {
	progress
	bound uint64 // cycles; all there are while nobody runs the lane
	first uint64 // what the queue had sent when its visit began to work, at lane.ticks
	near  uint64 // until when each look is timed; 0: they are not
	usage usage
}

// enter says that q's memory is about to be touched.
func (e *lane) enter(q *qp) {
	e.cur = q
	e.at.Publish(uint64(q.num))
}

// enterCQ says that q's memory is about to be touched.
func (e *lane) enterCQ(q *cq) {
	e.curCQ = q
	e.at.Publish(uint64(q.num) | atCQ)
}

// started begins the work of a visit to q: its record has been read.
func (e *lane) started(q *qp) {
	now := clock.Now()
	if now-e.mark.Observe() > e.bound {
		e.slowLooks(now)
	}
	e.ticks, e.first = now, q.sent
}

// visited ends a visit to q that did something.
func (e *lane) visited(q *qp) {
	now := clock.Now()
	if began := max(e.ticks, e.mark.Observe()); now-began > e.bound {
		if e.working() {
			e.slowVisit(q, now)
		} else {
			e.slowLooks(now)
		}
	}
	e.mark.Publish(now)
}

// working reports whether a visit has begun to work that has not ended.
func (e *lane) working() bool { return e.ticks > e.mark.Observe() }

// restart begins to measure again after the lane did something else.
func (e *lane) restart() {
	now := clock.Now()
	e.usage.out += now - e.mark.Observe()
	if e.usage.out-e.usage.whole.out > e.bound {
		e.usage.sample(now, true) // what the thread waited for meanwhile is no matter either
	}
	e.mark.Publish(now)
	e.busy.Publish(1)
}

// passed ends what is measured since the last mark, and returns the clock.
func (e *lane) passed() (now uint64) {
	now = clock.Now()
	e.busy.Publish(0)
	if e.several && !e.inside { // requests and other lanes may be at work here
		e.mine.lock()
		e.inside = true
		defer e.end()
	}
	e.passedAt(now)
	return now
}

// passedAt is passed at a time that has been.
func (e *lane) passedAt(now uint64) {
	if now-e.mark.Observe() > e.bound && int64(now-e.mark.Observe()) > 0 {
		if e.working() && e.cur != nil {
			e.slowVisit(e.cur, now) // a fault of memory has cut it off
		} else {
			e.slowLooks(now)
		}
	}
	e.mark.Publish(now)
}

// glance ends a look, while each is timed by itself.
func (e *lane) glance() {
	now := clock.Now()
	if now-e.mark.Observe() > e.bound {
		e.slowLooks(now)
	}
	e.mark.Publish(now)
	if now > e.near {
		e.near = 0
	}
}

// inquire reports whether it was memory that held the lane up since then. Of
// visits that a request has made, it does not know: it is measured by itself, and the
// thread may be another one.
func (e *lane) inquire(since, now uint64) (delay, bool) {
	if e.stopped || e.bound == math.MaxUint64 {
		return delay{}, false
	}
	return e.usage.judge(since, now)
}

// slowVisit looks into a visit to q that took too long.
func (e *lane) slowVisit(q *qp, now uint64) {
	if h, ok := e.inquire(e.ticks, now); ok {
		e.heldBy(q, h)
	}
}

// slowLooks looks into looks that took too long. It knows which of them did only if they
// are timed one by one, as they are from now on.
func (e *lane) slowLooks(now uint64) {
	h, ok := e.inquire(e.mark.Observe(), now)
	if !ok || !e.looksAway() {
		return
	}
	at := e.at.Observe()
	q, c := e.qps[uint32(at)], e.cqs[uint32(at)]
	one := e.near != 0 || len(e.running)+len(e.armable) == 1
	e.near = now + clock.Cycles(nearTime)
	switch {
	case one && at&atCQ != 0 && c != nil:
		e.heldByCQ(c, h)
	case one && at&atCQ == 0 && q != nil:
		e.first = q.sent
		e.heldBy(q, h)
	default:
		e.journal.say(slog.LevelWarn, "the engine's thread was held up at doorbell records or arm words of some client; "+
			"if it happens again, the client is named", h.attrs()...)
	}
}

// do is Engine.Do for a request of this client: it is known to the watchdog, and if
// memory of the client held it up, that is explained. It runs on a lane's thread, or on
// the caller's; there is no sample of either, and so it is asked before and after.
func (c *Client) do(what string, f func()) {
	c.e.Do(func() {
		runtime.LockOSThread() // whose page faults are counted
		defer runtime.UnlockOSThread()
		r := request{client: c.name, what: what, since: clock.Now()}
		c.e.watchdog.request.Store(&r)
		var u usage
		u.sample(r.since, false)
		defer func() {
			c.e.watchdog.request.Store(nil)
			now := clock.Now()
			if now-r.since <= clock.Cycles(slowRequest) {
				return
			}
			if d, ok := u.judge(r.since, now); ok {
				m := held{subject: subject{client: c}, what: "request " + what + ": ", away: c.process != nil}
				for _, r := range c.regions {
					m.of(r)
				}
				c.lane.sayHeld(m, d, false)
			}
		}()
		f()
	})
}
