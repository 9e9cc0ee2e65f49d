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

// idlePolicy returns the policy want if it suits this machine. Otherwise it returns another policy
// and writes the reason to the log.
func idlePolicy(want idle, canMonitor bool, quota float64, j *journal.Journal) idle {
	if quota < 1 {
		// A spinning engine would use up its quota, and the kernel would then stop it during work.
		j.Log(slog.LevelWarn, "a CPU quota of less than one core: the engine sleeps while it has no work; under load the kernel stops it for part of each period",
			"cores", fmt.Sprintf("%.2f", quota), "cure", "a whole core: cpuset in place of cpu.max")
		return idleNap
	}
	if want != idleMonitor || canMonitor {
		return want
	}
	j.Log(slog.LevelWarn, "IdleMonitor needs UMWAIT: the processor lacks WAITPKG, or a hypervisor hides it; the engine spins instead",
		"processor", cpu.Name())
	return idleSpin
}

// After spinTime without work the idler begins to yield, and after yieldTime to sleep.
const (
	spinTime  = 50 * time.Microsecond
	yieldTime = 200 * time.Microsecond
)

// While some client with queues does not wake the device, the device takes naps instead of
// longer sleeps. In the first second after work, naps are short: new work of a warm queue is found
// within 100 us, and the naps cost a fifth of a core on a virtual machine (16 us for each timer).
// After that, naps are long and cost a hundredth of a core. While all clients wake the
// device, it sleeps for sleepTime at a time. It misses no work then. Before the first such sleep it
// has to look at everything that can be announced (look.go). If that takes several looks, it takes
// naps of passNap between them, which a client that wakes the device ends. (Nobody wakes it when there is
// room again in a full ring of a port. As long as a packet waits for that, the device takes naps.)
// How long a nap is depends on no client's queues: a look is bounded, so it need not be longer if
// there are many.
// sleepTime is bounded because the device also checks some things that no client announces; diagnose,
// for example, does so.
const (
	napTime   = 50 * time.Microsecond
	soonTime  = time.Second
	lateNap   = 2 * time.Millisecond
	passNap   = time.Millisecond
	sleepTime = 50 * time.Millisecond
)

// diagnosesPerSleep is how many queue pairs are diagnosed before each long sleep. Before a
// nap, one queue pair is diagnosed.
const diagnosesPerSleep = 16

// An idler passes the time of a shard that has no work: it spins, yields or sleeps.
type idler struct {
	sh         *threadLoop
	policy     idle
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

func newIdler(sh *threadLoop, sharesCore bool) *idler {
	i := &idler{sh: sh, policy: sh.cfg.idle, sharesCore: sharesCore, bound: sleepTime, cores: cores.NewContention()}
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
	case idleSpin:
		return
	case idleMonitor:
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
// Publish: asleep, then a barrier on all posters, then a pass through all queues (look.go). Work
// announced before the barrier is found by that pass. A poster that announces work after
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
	sh.beginPass()
	sh.release()
	all = all && shm.Barrier() == nil
	if all {
		sh.published = 0 // publish the counters now, because they do not change during a sleep
	}
	passed := false // a whole pass has been made since the barrier
	for ctx.Err() == nil && !(sh.number == 0 && sh.mail.waiting.Load()) {
		sh.publish()
		polls := lookPolls
		if !all && clock.Duration(clock.Now()-i.worked) <= soonTime {
			polls = soonPolls
		}
		f := sh.look(polls, all)
		if f.done > 0 {
			i.worked = 0
			break
		}
		if i.sharesCore {
			cpu.Yield()
		}
		// All timers are known at the end of a pass, or if there are none.
		passed = passed || f.ended
		wakes := all && !sh.ringFull // whoever has work for the device wakes it
		long := wakes && passed && (f.ended || sh.stalled+sh.arm.held == 0)
		if sh.number == 0 && !sh.mail.allowCallers(!long) {
			break
		}
		woken := sh.sleeper.Load().Sleep(i.sleepFor(wakes, long, clock.Now()-i.worked, f.next))
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

// sleepFor returns how long to sleep. It depends on no client's queues or memory. all means that
// all clients wake the device, and safe that everything announced before the barrier has been
// found. The other arguments are in cycles: idle is the time since the last work, and next is the
// time until the next timer.
func (i *idler) sleepFor(all, safe bool, idle, next uint64) time.Duration {
	d := napTime
	switch {
	case all && safe:
		d = i.bound
	case all:
		d = passNap
	case clock.Duration(idle) > soonTime:
		d = lateNap
	}
	return min(d, clock.Duration(next))
}
