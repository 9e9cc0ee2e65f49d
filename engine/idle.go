package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// Idle is what Run does while there is no work.
type Idle uint8

const (
	// IdleNap spins for a short while, then yields, then sleeps. Clients that
	// wake the device have their first work done in some 40 us; while others have
	// queues, it takes naps that bound how late theirs is seen.
	IdleNap Idle = iota
	// IdleSpin never sleeps: the core is the engine's alone.
	IdleSpin
	// IdleMonitor never sleeps either, but has the core rest: until the record of
	// the queue that worked last is written to, or for a microsecond or a few
	// (UMONITOR and UMWAIT, of processors with WAITPKG). Others spin.
	IdleMonitor
)

// policy returns what of want this machine can do, and says what it cannot.
func (want Idle) policy(canMonitor bool, allowance float64, j *journal) Idle {
	if allowance < 1 {
		// Who spins would use its part up, and then be stopped in the middle of work.
		j.say(slog.LevelWarn, "a CPU quota of less than one core: the engine sleeps while it has no work, and is stopped for a part of each period while it has much",
			"cores", fmt.Sprintf("%.2f", allowance), "cure", "a whole core: cpuset in place of cpu.max")
		return IdleNap
	}
	if want != IdleMonitor || canMonitor {
		return want
	}
	j.say(slog.LevelWarn, "no UMWAIT here: the processor lacks WAITPKG, or a hypervisor hides it; the engine spins",
		"processor", cpu.Name())
	return IdleSpin
}

// How long the stages before sleep last.
const (
	spinTime  = 50 * time.Microsecond
	yieldTime = 200 * time.Microsecond
)

// While some client with queues does not wake the device, it takes naps: short
// ones in the first second after work, which find the next work within 100 us and
// cost a fifth of a core on a virtual machine (16 us for each timer), then long
// ones, which cost a hundredth. While all wake it, it sleeps: nothing is
// missed then, and the bound is for what the device looks at of its own accord.
const (
	napTime   = 50 * time.Microsecond
	soonTime  = time.Second
	lateNap   = 2 * time.Millisecond
	sleepTime = 50 * time.Millisecond
)

// A look at all queues, before each sleep, may take so much of the time at most:
// with many queues naps are longer.
const (
	napShare   = 10
	sleepShare = 200
)

// hintLooks is at how many queue pairs the device looks after each long sleep,
// whether something seems to have gone wrong; after a nap it is one.
const hintLooks = 16

// An idler is what Run does between steps that found nothing.
type idler struct {
	e       *shard
	policy  Idle
	alone   bool
	bound   time.Duration // of a sleep
	since   uint64        // device clock when it last began to spin; 0: busy
	worked  uint64        // when work ended
	counted uint64        // requests served when the clients were counted
	wakers  []*Client     // who is told that the device sleeps
	all     bool          // nobody else has queues
	sleeps  uint64        // how many there have been: the number of the next
	crowd   crowd
}

func newIdler(e *shard, alone bool) *idler {
	i := &idler{e: e, policy: e.cfg.Idle, alone: alone, bound: sleepTime, crowd: newCrowd()}
	if e.hooks.sleepBound > 0 {
		i.bound = e.hooks.sleepBound
	}
	e.begin()
	i.count()
	e.end()
	return i
}

// reset says that there was work.
func (i *idler) reset() { i.since, i.worked, i.crowd.seen, i.crowd.looks = 0, 0, 0, 0 }

// eachStep reports whether it waits after each step that found nothing, rather than
// after many.
func (i *idler) eachStep() bool { return i.alone || i.crowd.here }

// wait passes the time after steps that found nothing.
func (i *idler) wait(ctx context.Context) {
	switch i.policy {
	case IdleSpin:
		return
	case IdleMonitor:
		i.e.monitorWait()
		return
	}
	now := clock.Now()
	if i.worked == 0 {
		i.worked = now
	}
	if idle := clock.Duration(now - i.worked); !i.e.hooks.uncrowded && i.crowd.look(now) && idle < crowdIdle {
		if i.crowd.looks++; i.crowd.looks > crowdLooks {
			i.e.sleeper.sleep(i.crowd.nap(idle))
			i.since, i.crowd.seen, i.crowd.looks = 0, 0, 0
		}
		return
	}
	if i.since == 0 {
		i.since = now
		return
	}
	switch idle := clock.Duration(now - i.since); {
	case idle < spinTime:
	case idle < yieldTime:
		runtime.Gosched()
	default:
		i.sleep(ctx)
		i.since, i.crowd.seen = 0, 0
	}
}

// recount counts, if there have been requests since.
func (i *idler) recount() {
	if i.counted != i.e.served {
		i.count()
	}
}

// count finds out who can be told that the device sleeps, and whether that is
// everybody who could have work for it.
func (i *idler) count() {
	i.counted = i.e.served
	clear(i.wakers)
	i.wakers, i.all = i.wakers[:0], true
	for c := range i.e.clients {
		if c.wake.fd != nil {
			i.wakers = append(i.wakers, c)
		}
		if !c.wake.always && len(c.qps)+len(c.cqs) > 0 {
			i.all = false
		}
	}
}

// sleep sleeps until somebody wakes the device or there is something to do.
//
// Publish: asleep, then a barrier on all posters, then a last look. Whoever has
// announced work before the barrier is seen by the look; whoever does later loads
// asleep afterwards, and wakes the device (docs/ORDERING.md, number 16).
func (i *idler) sleep(ctx context.Context) {
	e := i.e
	e.begin()
	i.recount()
	i.sleeps++
	e.asleep.Store(true)
	i.tell(i.sleeps)
	all := i.all && !(e.several && e.crossesShards())
	e.end()
	all = all && shm.Barrier() == nil
	if all {
		e.published = 0 // the counters stand still while it sleeps
	}
	for ctx.Err() == nil && !(e.number == 0 && e.mail.waiting.Load()) {
		e.publish()
		began := clock.Now()
		done, next := e.visitEverything(all)
		if done > 0 {
			i.worked = 0
			break
		}
		if i.alone {
			cpu.Yield()
		}
		now := clock.Now()
		if e.number == 0 && !e.mail.rest() {
			break
		}
		woken := e.sleeper.sleep(i.howLong(all, now-began, now-i.worked, next))
		if e.number == 0 {
			e.mail.rise()
		}
		e.begin()
		i.recount() // whose pages are still there
		e.end()
		if woken {
			break
		}
	}
	e.begin()
	e.asleep.Store(false)
	i.tell(0)
	e.end()
}

// tell publishes on the clients' status pages whether the device sleeps.
func (i *idler) tell(sleep uint64) {
	for _, c := range i.wakers {
		if _, mine := i.e.clients[c]; mine { // it may have moved or gone since they were counted
			c.page.asleep.Publish(sleep)
		}
	}
}

// howLong returns how long to sleep after a look that took so many cycles, so
// many after the last work, when the next timer runs out in so many.
func (i *idler) howLong(all bool, look, idle, next uint64) time.Duration {
	d, share := napTime, time.Duration(napShare)
	switch {
	case all:
		d, share = i.bound, sleepShare
	case clock.Duration(idle) > soonTime:
		d = lateNap
	}
	return min(max(d, share*clock.Duration(look)), clock.Duration(next))
}

// visitEverything does what Step does, for all queues at once: it looks at every
// record, every arm word and all that wait. It returns how much there was to do,
// above 0 if it cannot say, and in how many cycles the next timer runs out.
func (sh *shard) visitEverything(long bool) (done int, next uint64) {
	done = 1 // for those who are cut off by a fault of memory
	defer sh.rescue()
	defer sh.passed()
	sh.begin()
	sh.restart()
	sh.ticks = 0
	n := sh.sched.unswept
	for _, q := range sh.running {
		if q.sq.blueFlame != nil {
			q.sq.blueFlame.hot = 0 // the record too
		}
		if k := sh.visit(q); k > 0 {
			sh.visited(q)
			n += k
			sh.markWarm(q)
		}
	}
	sh.fault.qp = nil
	sh.fault.part = cutRetry
	for looked := 0; looked < len(sh.stalled); looked += retryLooks {
		n += sh.retry()
	}
	sh.fault.part = cutLast
	for _, c := range sh.arm.cqs {
		if sh.near != 0 {
			sh.timeLook()
		}
		sh.enterCQ(c)
		if n += sh.observeArm(c); n >= armAnswers {
			break
		}
	}
	sh.fault.cq = nil
	looks := 1
	if long {
		looks = hintLooks
	}
	for range looks {
		sh.diagnose()
	}
	sh.fault.part = cutVisits
	if sh.several {
		n += sh.visitPostponed(true)
	}
	next = sh.nextTimer()
	sh.end()
	return n, next
}

// nextTimer returns in how many cycles the first of those who wait tries again.
func (sh *shard) nextTimer() uint64 {
	next, now := ^uint64(0), clock.Now()
	for _, q := range sh.stalled {
		if s := &q.stall; !s.forever {
			next = min(next, max(s.deadline, now)-now)
		}
	}
	return next
}
