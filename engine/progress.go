//go:build linux && (amd64 || arm64)

package engine

import (
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/nicless/nicless/engine/internal/usage"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// Memory of a client can delay the thread that touches it: a page may have to be fetched or
// cleared, or a process may be punching a hole there. All clients wait meanwhile. So the
// shard reads the device clock at the beginning and the end of each visit that finds work,
// and at the end of each batch of steps. If the time between two of these readings is
// longer than slowTime, package usage tells whether memory or the scheduler was the cause,
// and delay.go explains a delay by memory. See docs/design/0019.

// slowTime is the longest time that a visit, or all polls together between two visits, may
// take.
const slowTime = time.Millisecond

// slowRequest is how long a request may take. It is longer than slowTime because requests
// also touch new memory of the engine, whose page faults the kernel counts in the same way.
const slowRequest = 10 * time.Millisecond

// timedTime is for how long each poll is timed separately, after several polls together have
// taken too long and the device does not know which of them was slow.
const timedTime = 10 * time.Second

// A progress is the part of a shard that other threads, above all the watchdog's, read at
// any time. Its words are written by the thread that works for the shard.
//
// Publish: at, mark, busy, thread. Observed by Engine.checkShards.
type progress struct {
	_      [64]byte
	at     shm.Word64 // the queue whose memory is touched: a QPN, or atCQ and a CQN
	mark   shm.Word64 // device clock when the shard last advanced
	busy   shm.Word64 // 1: in a batch of steps; 0: the shard touches no memory of clients
	thread shm.Word64 // thread id; 0: no thread runs the shard
	_      [64]byte
}

// atCQ is the bit which says that progress.at is a CQN.
const atCQ = 1 << 32

// A pace is how a shard measures its own progress.
type pace struct {
	bound      uint64 // slowTime in cycles; the largest uint64 while no thread runs the shard
	first      uint64 // sq.done of the visited queue at the time shard.ticks, when the visit began to work
	timedUntil uint64 // device clock until which each poll is timed separately; 0: polls are timed together
	usage      usage.Meter
}

// enter records that memory of q is about to be touched.
func (sh *reporter) enter(q *qp) {
	sh.fault.qp = q
	sh.at.Publish(uint64(q.num))
}

// enterCQ records that memory of q is about to be touched.
func (sh *reporter) enterCQ(q *cq) {
	sh.fault.cq = q
	sh.at.Publish(uint64(q.num) | atCQ)
}

// started begins the measurement of a visit to q that has found work in its record.
func (sh *reporter) started(q *qp) {
	now := clock.Now()
	if now-sh.mark.Observe() > sh.bound {
		sh.slowPolls(now)
	}
	sh.ticks, sh.first = now, q.sq.done
}

// visited ends the measurement of a visit to q that did something.
func (sh *reporter) visited(q *qp) {
	now := clock.Now()
	if began := max(sh.ticks, sh.mark.Observe()); now-began > sh.bound {
		if sh.working() {
			sh.slowVisit(q, now)
		} else {
			sh.slowPolls(now)
		}
	}
	sh.mark.Publish(now)
}

// working reports whether a visit has found work and has not ended yet.
func (sh *reporter) working() bool { return sh.ticks > sh.mark.Observe() }

// measure begins to measure the calling thread, which runs the shard. unmeasure ends this.
func (sh *reporter) measure() {
	sh.thread.Publish(uint64(unix.Gettid()))
	sh.mark.Publish(clock.Now())
	sh.usage.Begin(sh.mark.Observe())
	sh.bound = clock.Cycles(slowTime)
}

func (sh *reporter) unmeasure() {
	sh.bound = math.MaxUint64
	sh.busy.Publish(0)
	sh.thread.Publish(0)
	sh.usage.End()
}

// restart begins to measure again after the thread has done something that is not measured.
func (sh *reporter) restart() {
	now := clock.Now()
	if sh.usage.Exclude(now-sh.mark.Observe()) > sh.bound {
		sh.usage.Sample(now, true) // what the thread waited for while it was not measured does not count
	}
	sh.mark.Publish(now)
	sh.busy.Publish(1)
}

// passed ends the measurement since the last mark, and returns the device clock.
func (sh *reporter) passed() (now uint64) {
	now = clock.Now()
	sh.busy.Publish(0)
	if sh.several && !sh.acquired { // requests and other shards may be touching this shard
		sh.ticket.Lock()
		sh.acquired = true
		defer sh.release()
	}
	sh.passedAt(now)
	return now
}

// passedAt does what passed does after taking the lock. now is the device clock as the caller
// has read it, and may be earlier than the last mark.
func (sh *reporter) passedAt(now uint64) {
	if now-sh.mark.Observe() > sh.bound && int64(now-sh.mark.Observe()) > 0 {
		if sh.working() && sh.fault.qp != nil {
			sh.slowVisit(sh.fault.qp, now) // a fault of memory has cut the visit off
		} else {
			sh.slowPolls(now)
		}
	}
	sh.mark.Publish(now)
}

// timePoll ends the measurement of one poll, while each poll is timed separately.
func (sh *reporter) timePoll() {
	now := clock.Now()
	if now-sh.mark.Observe() > sh.bound {
		sh.slowPolls(now)
	}
	sh.mark.Publish(now)
	if now > sh.timedUntil {
		sh.timedUntil = 0
	}
}

// delayByMemory reports whether memory of clients delayed the shard between since and now.
// It returns false during a request, because client.do measures requests, perhaps on
// another thread.
func (sh *reporter) delayByMemory(since, now uint64) (usage.Delay, bool) {
	if sh.stopped || sh.bound == math.MaxUint64 {
		return usage.Delay{}, false
	}
	return sh.usage.Judge(since, now, slowTime)
}

// slowVisit explains a visit to q that took too long, if memory was the cause.
func (sh *reporter) slowVisit(q *qp, now uint64) {
	if h, ok := sh.delayByMemory(sh.ticks, now); ok {
		sh.explainDelay(q, h)
	}
}

// slowPolls explains polls that took too long, if memory was the cause. It knows which poll
// took too long only if polls are timed separately, or if the shard has only one queue to
// poll. From now on, for timedTime, polls are timed separately.
func (sh *reporter) slowPolls(now uint64) {
	h, ok := sh.delayByMemory(sh.mark.Observe(), now)
	if !ok || !sh.pollsForeignMemory() {
		return
	}
	at := sh.at.Observe()
	q, c := sh.qps[uint32(at)], sh.cqs[uint32(at)]
	one := sh.timedUntil != 0 || len(sh.running)+sh.arm.cqs == 1
	sh.timedUntil = now + clock.Cycles(timedTime)
	switch {
	case one && at&atCQ != 0 && c != nil:
		sh.explainCQDelay(c, h)
	case one && at&atCQ == 0 && q != nil:
		sh.first = q.sq.done
		sh.explainDelay(q, h)
	default:
		sh.journal.Log(slog.LevelWarn, "the engine's thread was held up at doorbell records or arm words of some client; "+
			"if it happens again, the client is named", h.Attrs()...)
	}
}

// do is Engine.doWith for a request of this client. The watchdog knows of the request. If
// memory of the client has delayed the request, that is explained. The request runs on a
// shard's thread or on the caller's thread, so the usage of that thread is sampled before
// and after.
func (c *caller) do(b bringing, what string, f func()) {
	c.e.doWith(b, func() {
		runtime.LockOSThread() // the page faults of this one thread are counted
		defer runtime.UnlockOSThread()
		r := controlRequest{client: c.name, what: what, since: clock.Now()}
		c.e.watchdog.request.Store(&r)
		var u usage.Meter
		u.Sample(r.since, false)
		defer func() {
			c.e.watchdog.request.Store(nil)
			now := clock.Now()
			if now-r.since <= clock.Cycles(slowRequest) {
				return
			}
			if d, ok := u.Judge(r.since, now, slowTime); ok {
				m := delaySite{subject: subject{client: c.client}, what: "request " + what + ": ", inProcess: c.process != nil}
				for _, r := range c.regions {
					m.addRegions(r)
				}
				c.loop().sayDelay(m, d, false)
			}
		}()
		f()
	})
}
