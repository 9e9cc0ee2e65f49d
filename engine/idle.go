//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// policy returns the policy want if it suits this machine. Otherwise it returns another policy
// and writes the reason to the log.
func (want Idle) policy(canMonitor bool, quota float64, j *journal.Journal) Idle {
	if quota < 1 {
		// A spinning engine would use up its quota, and the kernel would then stop it during work.
		j.Log(slog.LevelWarn, "a CPU quota of less than one core: the engine sleeps while it has no work; under load the kernel stops it for part of each period",
			"cores", fmt.Sprintf("%.2f", quota), "cure", "a whole core: cpuset in place of cpu.max")
		return IdleNap
	}
	if want != IdleMonitor || canMonitor {
		return want
	}
	j.Log(slog.LevelWarn, "IdleMonitor needs UMWAIT: the processor lacks WAITPKG, or a hypervisor hides it; the engine spins instead",
		"processor", cpu.Name())
	return IdleSpin
}

// After spinTime without work the idler begins to yield, and after yieldTime to sleep.
const (
	spinTime  = 50 * time.Microsecond
	yieldTime = 200 * time.Microsecond
)

// While some client with queues does not wake the device, the device takes naps instead of
// longer sleeps. In the first second after work, naps are short: new work is found within
// 100 us, and the naps cost a fifth of a core on a virtual machine (16 us for each timer).
// After that, naps are long and cost a hundredth of a core. While all clients wake the
// device, it sleeps for sleepTime at a time. It misses no work then. (Nobody wakes it when there is
// room again in a full ring of a port. As long as a packet waits for that, the device takes naps.)
// sleepTime is bounded because the device also checks some things that no client announces; diagnose,
// for example, does so.
const (
	napTime   = 50 * time.Microsecond
	soonTime  = time.Second
	lateNap   = 2 * time.Millisecond
	sleepTime = 50 * time.Millisecond
)

// Before each sleep all queues are visited. A nap lasts at least napShare times as long as
// these visits took, and a longer sleep at least sleepShare times as long. So sleeps are
// longer when there are many queues.
const (
	napShare   = 10
	sleepShare = 200
)

// diagnosesPerSleep is how many queue pairs are diagnosed before each long sleep. Before a
// nap, one queue pair is diagnosed.
const diagnosesPerSleep = 16

// An idler passes the time of a shard that has no work: it spins, yields or sleeps.
type idler struct {
	sh         *shard
	policy     Idle
	sharesCore bool
	bound      time.Duration // longest sleep
	since      uint64        // device clock when the idler began to spin; 0: not spinning
	worked     uint64        // device clock when work ended; 0: it has not ended
	countedAt  [2]uint64     // Engine.served and portChanges when clients and ports were counted
	wakers     []*client     // clients that can wake the device; their status pages show sleeps
	allWake    bool          // every client with queues wakes the device
	sleeps     uint64        // number of sleeps so far
	cores      cores.Contention
}

func newIdler(sh *shard, sharesCore bool) *idler {
	i := &idler{sh: sh, policy: sh.cfg.Idle, sharesCore: sharesCore, bound: sleepTime, cores: cores.NewContention()}
	if sh.hooks.sleepBound > 0 {
		i.bound = sh.hooks.sleepBound
	}
	sh.acquire()
	i.countClients()
	sh.release()
	return i
}

// reset notes that there was work.
func (i *idler) reset() {
	i.since, i.worked = 0, 0
	i.cores.Worked()
}

// afterEachStep reports whether wait is to be called after each step that found no work,
// rather than after a batch of such steps.
func (i *idler) afterEachStep() bool { return i.sharesCore || i.cores.Contended() }

// wait passes some time after steps that found no work.
func (i *idler) wait(ctx context.Context) {
	switch i.policy {
	case IdleSpin:
		return
	case IdleMonitor:
		i.sh.monitorWait()
		return
	}
	now := clock.Now()
	if i.worked == 0 {
		i.worked = now
	}
	if idle := clock.Duration(now - i.worked); !i.sh.hooks.uncontended && i.cores.Check(now) && idle < cores.NapTime {
		if nap := i.cores.Nap(idle, napTime); nap > 0 {
			i.nap(nap)
			i.since = 0
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
		i.since = 0
		i.cores.Slept()
	}
}

// nap sleeps shortly, unless there are requests. Nothing ends a nap early.
func (i *idler) nap(d time.Duration) {
	first := i.sh.number == 0
	if first && !i.sh.mail.allowCallers(true) {
		return
	}
	i.sh.sleeper.Load().Sleep(d)
	if first {
		i.sh.mail.stopCallers()
	}
}

// recountClients calls countClients again if requests have been served since the last
// count, or ports have changed.
func (i *idler) recountClients() {
	if i.countedAt != [2]uint64{i.sh.served, i.sh.portChanges} {
		i.countClients()
	}
}

// countClients finds the clients that can wake the device, and whether every client with
// queues always wakes it.
func (i *idler) countClients() {
	i.countedAt = [2]uint64{i.sh.served, i.sh.portChanges}
	clear(i.wakers)
	i.wakers, i.allWake = i.wakers[:0], true
	for _, p := range i.sh.ports {
		if p.up && !p.cfg.Wakes && p.cfg.Asleep == nil {
			i.allWake = false
		}
	}
	for c := range i.sh.clients {
		if c.wake.fd != nil {
			i.wakers = append(i.wakers, c)
		}
		if !c.wake.always && len(c.qps)+len(c.cqs) > 0 {
			i.allWake = false
		}
	}
}

// sleep sleeps until the device is woken or there is something to do.
//
// Publish: asleep, then a barrier on all posters, then a last visit to all queues. Work
// announced before the barrier is found by that visit. A poster that announces work after
// the barrier loads asleep after its announcement, sees that the device sleeps, and wakes it
// (docs/ORDERING.md, number 16).
func (i *idler) sleep(ctx context.Context) {
	sh := i.sh
	sh.acquire()
	i.recountClients()
	i.sleeps++
	sh.asleep.Store(true)
	i.publishAsleep(i.sleeps)
	all := i.allWake && !(sh.several && sh.crossesShards())
	sh.release()
	all = all && shm.Barrier() == nil
	if all {
		sh.published = 0 // publish the counters now, because they do not change during a sleep
	}
	for ctx.Err() == nil && !(sh.number == 0 && sh.mail.waiting.Load()) {
		sh.publish()
		began := clock.Now()
		done, next := sh.visitEverything(all)
		if done > 0 {
			i.worked = 0
			break
		}
		if i.sharesCore {
			cpu.Yield()
		}
		now := clock.Now()
		if sh.number == 0 && !sh.mail.allowCallers(!all) {
			break
		}
		woken := sh.sleeper.Load().Sleep(i.sleepFor(all && !sh.ringFull, now-began, now-i.worked, next))
		if sh.number == 0 {
			sh.mail.stopCallers()
		}
		sh.acquire()
		i.recountClients() // a request served during the sleep may have closed clients
		sh.release()
		if woken {
			break
		}
	}
	sh.acquire()
	sh.asleep.Store(false)
	i.publishAsleep(0)
	sh.release()
}

// publishAsleep publishes the number of the sleep on the status pages of the clients that
// can wake the device, and tells carriers that ask for it. When the device is awake, it publishes 0.
func (i *idler) publishAsleep(sleep uint64) {
	i.sh.tellAsleep(sleep != 0)
	for _, c := range i.wakers {
		if _, mine := i.sh.clients[c]; mine { // false if c has moved or gone since the count
			c.page.asleep.Publish(sleep)
		}
	}
}

// sleepFor returns how long to sleep. all means that all clients wake the device. The other
// arguments are in cycles: look is the time that the visit to all queues took, idle is the
// time since the last work, and next is the time until the next timer.
func (i *idler) sleepFor(all bool, look, idle, next uint64) time.Duration {
	d, share := napTime, time.Duration(napShare)
	switch {
	case all:
		d, share = i.bound, sleepShare
	case clock.Duration(idle) > soonTime:
		d = lateNap
	}
	return min(max(d, share*clock.Duration(look)), clock.Duration(next))
}

// visitEverything does what Step does, but for all queues at once: it polls every record
// and every arm word, and retries all stalled queues. It returns how much there was to do,
// and in how many cycles the next timer runs out. If a fault of memory ends it early, it
// returns 1 for done. long means that a long sleep follows, not a nap.
func (sh *shard) visitEverything(long bool) (done int, next uint64) {
	done = 1 // the result if a fault of memory ends this function early
	defer sh.recoverFault()
	defer sh.passed()
	sh.acquire()
	sh.restart()
	sh.ticks = 0
	sh.ringFull = false
	n := sh.sched.unswept
	for _, q := range sh.running {
		if q.sq.blueFlame != nil {
			q.sq.blueFlame.hot = 0 // so that the visit reads the record too
		}
		if k := sh.visit(q); k > 0 {
			sh.visited(q)
			n += k
			sh.markWarm(q)
		}
	}
	sh.fault.qp = nil
	sh.fault.part = cutRetry
	for looked := 0; looked < len(sh.stalled); looked += retriesPerStep {
		n += sh.retry()
	}
	sh.fault.part = cutLast
	for _, c := range sh.arm.cqs {
		if sh.timedUntil != 0 {
			sh.timePoll()
		}
		sh.enterCQ(c)
		if n += sh.observeArm(c) + sh.observeHeld(c); n >= armAnswers {
			break
		}
	}
	sh.fault.cq = nil
	looks := 1
	if long {
		looks = diagnosesPerSleep
	}
	for range looks {
		sh.diagnose()
	}
	sh.fault.part = cutVisits
	if len(sh.ports)+sh.timers.armed > 0 {
		sh.clock() // timers are looked at, too
		n += sh.servePorts(true)
	}
	if sh.several {
		n += sh.visitPostponed(true)
	}
	next = sh.nextTimer()
	sh.release()
	return n, next
}

// nextTimer returns in how many cycles the first timer of a stalled queue, of a queue pair on a
// link, or of an event that waits, runs out.
func (sh *shard) nextTimer() uint64 {
	next, now := ^uint64(0), clock.Now()
	for _, q := range sh.stalled {
		if s := &q.stall; !s.forever {
			next = min(next, max(s.deadline, now)-now)
		}
	}
	for _, c := range sh.arm.cqs {
		next = min(next, c.left(now))
	}
	if d := sh.nextDeadline(); d != ^uint64(0) {
		next = min(next, max(d, now)-now)
	}
	return next
}
