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
// So the shard reads the device clock at the beginning and the end of each visit that
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

// A progress is what others may know of a shard at any time: the watchdog, above all.
// Its words are written by whoever works for the shard.
//
// Publish: at, mark, busy, thread. Observed by watchdog.look.
type progress struct {
	_      [64]byte
	at     shm.Word64 // whose memory is touched: a QPN, or a CQN with atCQ
	mark   shm.Word64 // device clock when the shard was last known to move on
	busy   shm.Word64 // 1: in a batch of steps, else it touches nothing
	thread shm.Word64 // number of its thread; 0: nobody runs it
	_      [64]byte
}

// atCQ is a bit of progress.at.
const atCQ = 1 << 32

// A pace is what a shard knows of its own progress.
type pace struct {
	progress
	bound uint64 // cycles; all there are while nobody runs the shard
	first uint64 // what the queue had sent when its visit began to work, at shard.ticks
	near  uint64 // until when each look is timed; 0: they are not
	usage usage
}

// enter says that q's memory is about to be touched.
func (sh *shard) enter(q *qp) {
	sh.fault.qp = q
	sh.at.Publish(uint64(q.num))
}

// enterCQ says that q's memory is about to be touched.
func (sh *shard) enterCQ(q *cq) {
	sh.fault.cq = q
	sh.at.Publish(uint64(q.num) | atCQ)
}

// started begins the work of a visit to q: its record has been read.
func (sh *shard) started(q *qp) {
	now := clock.Now()
	if now-sh.mark.Observe() > sh.bound {
		sh.slowLooks(now)
	}
	sh.ticks, sh.first = now, q.sq.done
}

// visited ends a visit to q that did something.
func (sh *shard) visited(q *qp) {
	now := clock.Now()
	if began := max(sh.ticks, sh.mark.Observe()); now-began > sh.bound {
		if sh.working() {
			sh.slowVisit(q, now)
		} else {
			sh.slowLooks(now)
		}
	}
	sh.mark.Publish(now)
}

// working reports whether a visit has begun to work that has not ended.
func (sh *shard) working() bool { return sh.ticks > sh.mark.Observe() }

// restart begins to measure again after the shard did something else.
func (sh *shard) restart() {
	now := clock.Now()
	sh.usage.out += now - sh.mark.Observe()
	if sh.usage.out-sh.usage.whole.out > sh.bound {
		sh.usage.sample(now, true) // what the thread waited for meanwhile is no matter either
	}
	sh.mark.Publish(now)
	sh.busy.Publish(1)
}

// passed ends what is measured since the last mark, and returns the clock.
func (sh *shard) passed() (now uint64) {
	now = clock.Now()
	sh.busy.Publish(0)
	if sh.several && !sh.inside { // requests and other shards may be at work here
		sh.mine.lock()
		sh.inside = true
		defer sh.end()
	}
	sh.passedAt(now)
	return now
}

// passedAt is passed at a time that has been.
func (sh *shard) passedAt(now uint64) {
	if now-sh.mark.Observe() > sh.bound && int64(now-sh.mark.Observe()) > 0 {
		if sh.working() && sh.fault.qp != nil {
			sh.slowVisit(sh.fault.qp, now) // a fault of memory has cut it off
		} else {
			sh.slowLooks(now)
		}
	}
	sh.mark.Publish(now)
}

// timeLook ends a look, while each is timed by itself.
func (sh *shard) timeLook() {
	now := clock.Now()
	if now-sh.mark.Observe() > sh.bound {
		sh.slowLooks(now)
	}
	sh.mark.Publish(now)
	if now > sh.near {
		sh.near = 0
	}
}

// delayByMemory reports whether it was memory that held the shard up since then. Of
// visits that a request has made, it does not know: it is measured by itself, and the
// thread may be another one.
func (sh *shard) delayByMemory(since, now uint64) (delay, bool) {
	if sh.stopped || sh.bound == math.MaxUint64 {
		return delay{}, false
	}
	return sh.usage.judge(since, now)
}

// slowVisit looks into a visit to q that took too long.
func (sh *shard) slowVisit(q *qp, now uint64) {
	if h, ok := sh.delayByMemory(sh.ticks, now); ok {
		sh.heldBy(q, h)
	}
}

// slowLooks looks into looks that took too long. It knows which of them did only if they
// are timed one by one, as they are from now on.
func (sh *shard) slowLooks(now uint64) {
	h, ok := sh.delayByMemory(sh.mark.Observe(), now)
	if !ok || !sh.looksAway() {
		return
	}
	at := sh.at.Observe()
	q, c := sh.qps[uint32(at)], sh.cqs[uint32(at)]
	one := sh.near != 0 || len(sh.running)+len(sh.arm.cqs) == 1
	sh.near = now + clock.Cycles(nearTime)
	switch {
	case one && at&atCQ != 0 && c != nil:
		sh.heldByCQ(c, h)
	case one && at&atCQ == 0 && q != nil:
		sh.first = q.sq.done
		sh.heldBy(q, h)
	default:
		sh.journal.say(slog.LevelWarn, "the engine's thread was held up at doorbell records or arm words of some client; "+
			"if it happens again, the client is named", h.attrs()...)
	}
}

// do is Engine.Do for a request of this client: it is known to the watchdog, and if
// memory of the client held it up, that is explained. It runs on a shard's thread, or on
// the caller's; there is no sample of either, and so it is asked before and after.
func (c *Client) do(what string, f func()) {
	c.e.Do(func() {
		runtime.LockOSThread() // whose page faults are counted
		defer runtime.UnlockOSThread()
		r := controlRequest{client: c.name, what: what, since: clock.Now()}
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
				c.shard.sayHeld(m, d, false)
			}
		}()
		f()
	})
}
