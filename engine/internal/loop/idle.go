//go:build linux && (amd64 || arm64)

package loop

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// IdlePolicy returns the policy want if it suits this machine. Otherwise it returns another policy
// and writes the reason to the log.
func IdlePolicy(want object.Idle, canMonitor bool, quota float64, j *journal.Journal) object.Idle {
	if quota < 1 {
		// A spinning engine would use up its quota, and the kernel would then stop it during work.
		j.Log(slog.LevelWarn, "a CPU quota of less than one core: the engine sleeps while it has no work; under load the kernel stops it for part of each period",
			"cores", fmt.Sprintf("%.2f", quota), "cure", "a whole core: cpuset in place of cpu.max")
		return object.IdleNap
	}
	if want != object.IdleMonitor || canMonitor {
		return want
	}
	j.Log(slog.LevelWarn, "IdleMonitor needs UMWAIT: the processor lacks WAITPKG, or a hypervisor hides it; the engine spins instead",
		"processor", cpu.Name())
	return object.IdleSpin
}

// After spinTime without work the idler begins to yield its core, and after YieldTime to sleep. If it was
// woken and there was no work, it sleeps again at once: requests wake the device, too, and most of them are
// served by then. But not if one step does not poll all queues, because those that are left would wait for
// the naps between looks. And not within YieldTime of the last sleep: each sleep begins with a barrier on the
// cores of all clients, which one that wakes the device without end must not cause without end.
const (
	spinTime  = 50 * time.Microsecond
	YieldTime = 200 * time.Microsecond
)

// briefNaps is for how long after work a device on contended cores takes naps if all clients wake it. It is
// longer than the pauses of two programs that wait for each other's messages, and a sleep costs less than
// longer naps. Other devices take naps for cores.NapTime.
const briefNaps = time.Millisecond

// While some client with queues does not wake the device, the device takes naps instead of
// longer sleeps. In the first second after work, naps are short: new work of a warm queue is found
// within 100 us, and the naps cost a fifth of a core on a virtual machine (16 us for each timer).
// After that, naps are long and cost a hundredth of a core.
//
// While all clients wake the device, it sleeps for SleepTime at a time, and misses no work. Before the first
// such sleep, the device has to look at everything that can be announced (look.go). If this takes several
// looks, the device takes naps of passNap between the looks, and a client that wakes the device ends such a
// nap. Nobody wakes the device when a full ring of a port has room again, so the device takes naps as long
// as a packet waits for room. SleepTime is bounded because the device also checks some things that no client
// announces; Diagnose, for example, does so. Longer after the last work the sleeps are LateSleep and then
// LastSleep: each wakes this thread and sysmon of the Go runtime, and a host may run a hundred idle engines.
//
// The length of a nap depends on no client's queues: a look is bounded, so a nap need not be longer if there
// are many queues.
const (
	NapTime   = 50 * time.Microsecond
	soonTime  = time.Second
	LateNap   = 2 * time.Millisecond
	passNap   = time.Millisecond
	SleepTime = 50 * time.Millisecond
	LateSleep = 4 * SleepTime // after soonTime
	lateTime  = 10 * time.Second
	LastSleep = time.Second // after lateTime
)

// diagnosesPerSleep is how many queue pairs Diagnose looks at before each sleep of SleepTime. Before a nap,
// it looks at one queue pair.
const diagnosesPerSleep = 16

// An idler passes the time of a shard that has no work: it spins, yields or sleeps.
type idler struct {
	sh         *Loop
	policy     object.Idle
	sharesCore bool
	bound      time.Duration    // longest sleep
	since      uint64           // device clock when the idler began to spin; 0: not spinning
	worked     uint64           // device clock when work ended; 0: it has not ended
	slept      uint64           // device clock when the last sleep since the last work began; 0: none
	countedAt  [2]uint64        // Device.Served and PortChanges when clients and ports were counted
	wakers     []*object.Client // clients that can wake the device; their status pages show sleeps
	posters    []*object.Client // those of them that have queues; their status pages show naps, too
	allWake    bool             // every client with queues wakes the device
	allStep    bool             // there are no ports, and posters of every client with queues may run steps
	oneUser    bool             // all clients with queues are of one user
	rested     uint64           // device clock when rest was called last; 0: never
	lends      bool             // callers may run steps during the sleep that follows
	last       uint64           // number of the last sleep
	done       int              // work done since the last nap
	awake      uint64           // what status pages show while the device is awake: 0 or control.StatusNaps
	cores      cores.Contention
}

// NewIdler returns the idler of a shard. sharesCore says that other threads of the program need the shard's
// core.
func NewIdler(sh *Loop, sharesCore bool) *idler {
	i := &idler{sh: sh, policy: sh.Settings.Idle, sharesCore: sharesCore, bound: SleepTime,
		cores: cores.NewContention()}
	if sh.Hooks.SleepBound > 0 {
		i.bound = sh.Hooks.SleepBound
	}
	i.lends = i.mayLend()
	sh.Acquire()
	i.countClients()
	i.publish(i.wakers, 0) // an earlier Run may have ended while its cores were contended
	sh.Release()
	return i
}

// reset notes that there was work, and how much.
func (i *idler) reset(done int) {
	i.done += done
	i.since, i.worked, i.slept = 0, 0, 0
	i.cores.Worked()
}

// afterEachStep reports whether wait is to be called after each step that found no work,
// rather than after a batch of such steps.
func (i *idler) afterEachStep() bool {
	sleepsAgain := i.slept != 0 && i.pollsAll()
	return i.sharesCore || i.ownSteps() || sleepsAgain || i.cores.Contended()
}

// ownSteps reports whether all work of the device is that of posters who may run steps themselves.
func (i *idler) ownSteps() bool { return i.lends && i.allStep }

// mayLend reports whether callers may run steps while the device sleeps.
func (i *idler) mayLend() bool {
	return i.sh.r.lends() && (i.sharesCore || i.sh.Settings.PostersStep)
}

// leavesToPosters reports whether the device sleeps at once because posters do its work. Each sleep begins
// with a barrier, so this happens once in YieldTime.
func (i *idler) leavesToPosters(now uint64) bool {
	return i.ownSteps() && clock.Duration(now-i.rested) >= YieldTime && i.pollsAll()
}

// leaveToPosters sleeps after work, too, if posters can do it: they would have more for the thread without
// end.
func (i *idler) leaveToPosters(ctx context.Context) {
	if i.ownSteps() && i.leavesToPosters(clock.Now()) {
		i.worked = clock.Now()
		i.rest(ctx)
	}
}

// restsAtOnce reports whether the device sleeps without spinning before.
func (i *idler) restsAtOnce(now uint64, contended bool) bool {
	return (contended || i.slept != 0) && clock.Duration(now-i.slept) >= YieldTime && i.pollsAll()
}

// pollsAll reports whether a step that ends a batch polls all queues (PatrolMany).
func (i *idler) pollsAll() bool {
	i.sh.Acquire()
	n := len(i.sh.Running)
	i.sh.Release()
	return n <= patrolMostPolls
}

// wait passes some time after steps that found no work, in the way that the policy says.
func (i *idler) wait(ctx context.Context) {
	switch i.policy {
	case object.IdleSpin:
		return
	case object.IdleMonitor:
		i.sh.MonitorWait()
		return
	}
	now := clock.Now()
	if i.worked == 0 {
		i.worked = now
	}
	idle := clock.Duration(now - i.worked)
	contended := !i.sh.Hooks.Uncontended && i.cores.Check(now)
	i.showContended(contended)
	switch {
	case i.leavesToPosters(now):
		i.rest(ctx)
	case contended && idle < i.napsFor():
		i.napAmong(idle)
	case i.restsAtOnce(now, contended):
		i.rest(ctx)
	default:
		i.spin(ctx, now)
	}
}

// napsFor returns for how long after work the device takes naps while its cores are contended.
func (i *idler) napsFor() time.Duration {
	if i.allWake {
		return briefNaps
	}
	return cores.NapTime
}

// spin spins at first, then yields, and then sleeps.
func (i *idler) spin(ctx context.Context, now uint64) {
	if i.since == 0 {
		i.since = now
		return
	}
	spun := clock.Duration(now - i.since)
	switch {
	case spun < spinTime:
	case spun < YieldTime:
		if !i.sh.Hooks.Uncontended {
			i.cores.Count(now)
		}
		runtime.Gosched()
	default:
		i.rest(ctx)
	}
}

// rest sleeps, and notes that.
func (i *idler) rest(ctx context.Context) {
	i.slept = clock.Now()
	i.rested = i.slept
	i.sleep(ctx)
	i.since = 0
	i.cores.Slept()
}

// streamWork is the most work between two naps of a device whose posters wait for each of its answers. Those
// that do not wait post on during a nap, and it costs less to find all of that after the nap than to be woken
// for the first.
const streamWork = 8

// napAmong takes a nap if it is time for one. idle is the time since the last work. Posters of one user may
// make naps long by always ending them; those of another, who may never wake the device, would wait for the
// ends.
func (i *idler) napAmong(idle time.Duration) {
	wakeable := i.done <= streamWork && i.wakeable()
	nap := i.cores.Nap(idle, NapTime, wakeable && i.oneUser)
	switch {
	case nap == 0:
	case wakeable:
		i.nap(nap)
	default:
		i.doze(nap)
	}
}

// mostNapWakers is how many clients with queues may end a nap: the number of the nap is published to each,
// which may take longer than a short nap.
const mostNapWakers = 32

// wakeable reports whether posters announce all that can end a nap: no timer runs, nothing waits for another
// time or is planned for one, no packets come, and a look visits all queues.
func (i *idler) wakeable() bool {
	sh := i.sh
	sh.Acquire()
	defer sh.Release()
	planned := sh.Number == 0 && sh.r.Plan.Next != 0
	if planned || len(sh.Running) > patrolMostPolls || len(i.posters) > mostNapWakers {
		return false
	}
	for _, p := range sh.Ports {
		if p.Up {
			return false
		}
	}
	return sh.Stalled+sh.Timers.Armed+sh.Arm.Held+len(sh.Arm.Late.Clients) == 0
}

// showContended shows posters whether the device may take naps, when that has changed.
func (i *idler) showContended(contended bool) {
	if contended == (i.awake != 0) {
		return
	}
	i.awake = 0
	if contended {
		i.awake = control.StatusNaps
	}
	i.showAwake()
}

// showAwake shows posters that the device is awake.
func (i *idler) showAwake() {
	i.sh.Acquire()
	i.publishNap(i.awake)
	i.sh.Release()
}

// nap sleeps for the time d, or until a poster wakes the device, unless there is work or a request.
//
// A barrier on all posters, as before a sleep, would take longer than the nap. So they execute it themselves
// while cores are contended (StatusNaps): either the look at the queues finds their work, or they find the
// number of the nap, because the device makes a full barrier between the number and the look. Those that have
// not seen StatusNaps yet, just after it was published, may miss a nap, and their work waits for its end.
func (i *idler) nap(d time.Duration) {
	sh := i.sh
	i.since, i.done = 0, 0
	sh.Acquire()
	i.recountClients()
	i.publishNap(i.number())
	sh.Asleep.Store(true) // also a full barrier: the number of the nap before the look
	pollArmsNext(sh)
	sh.Release()
	if done := sh.Steps(true); done > 0 {
		i.reset(done)
	} else if sh.Number != 0 || sh.Mail.AllowCallers(true) {
		i.cores.Napped(sh.Sleeper.Load().Sleep(d))
		if sh.Number == 0 {
			sh.Mail.StopCallers()
		}
	}
	sh.Asleep.Store(false)
	i.showAwake()
}

// doze sleeps for the time d, unless there are requests. Nothing ends it early.
func (i *idler) doze(d time.Duration) {
	i.since, i.done = 0, 0
	first := i.sh.Number == 0
	if first && !i.sh.Mail.AllowCallers(true) {
		return
	}
	i.sh.Sleeper.Load().Sleep(d)
	if first {
		i.sh.Mail.StopCallers()
	}
}

// recountClients calls countClients again if requests have been served since the last
// count, or ports have changed.
func (i *idler) recountClients() {
	if i.countedAt != [2]uint64{i.sh.Served, i.sh.PortChanges} {
		i.countClients()
	}
}

// countClients finds the clients that can wake the device, and whether every client with
// queues always wakes it.
func (i *idler) countClients() {
	i.countedAt = [2]uint64{i.sh.Served, i.sh.PortChanges}
	clear(i.wakers)
	clear(i.posters)
	i.wakers, i.posters, i.allWake = i.wakers[:0], i.posters[:0], true
	i.allStep, i.oneUser = len(i.sh.Ports) == 0, true
	var user *object.Client // a client with queues
	for _, p := range i.sh.Ports {
		if p.Up && !p.Settings.Wakes && p.Settings.Asleep == nil {
			i.allWake = false
		}
	}
	for c := range i.sh.Clients {
		if c.Wake.FD != nil {
			i.wakers = append(i.wakers, c)
		}
		if len(c.QPs)+len(c.CQs) == 0 {
			continue
		}
		if user == nil {
			user = c
		}
		if c.Wake.FD != nil {
			i.posters = append(i.posters, c)
		}
		i.oneUser = i.oneUser && c.UID == user.UID
		i.allWake = i.allWake && c.Wake.Always
		i.allStep = i.allStep && c.Wake.Steps && c.Wake.Always
	}
}

// number returns the number of the sleep that begins. No client has seen it before: a client may come from
// another shard, or from another Run, and remembers which sleep it has ended.
func (i *idler) number() uint64 {
	i.last = max(i.last+1, clock.Now())
	return i.last
}

// sleep sleeps until the device is woken or there is something to do.
//
// The order is: publish asleep, then a barrier on all posters, then a pass through all queues (look.go). The
// pass finds all work announced before the barrier. A poster that announces work after the barrier loads
// asleep after its announcement, sees that the device sleeps, and wakes the device (docs/ORDERING.md, number
// 16).
func (i *idler) sleep(ctx context.Context) {
	sh := i.sh
	sh.Acquire()
	i.recountClients()
	sh.Asleep.Store(true)
	i.publishAsleep(i.number())
	all := i.allWake && !(sh.Several && sh.crossesShards())
	sh.BeginPass()
	sh.Release()
	all = all && shm.Barrier() == nil
	if all {
		sh.Published = 0 // so that Publish publishes the counters now: they do not change during a sleep
	}
	passed := false // a whole pass has been made since the barrier
	for ctx.Err() == nil && !(sh.Number == 0 && sh.Mail.Waiting.Load()) {
		sh.Publish()
		polls := LookPolls
		if !all && clock.Duration(clock.Now()-i.worked) <= soonTime {
			polls = SoonPolls
		}
		f := sh.Look(polls, all)
		if f.Done > 0 {
			i.worked, i.slept = 0, 0
			break
		}
		if i.sharesCore && !i.lends {
			cpu.Yield()
		}
		passed = passed || f.Ended
		wakes := all && !sh.RingFull // each client or carrier with work for the device wakes the device
		// A long sleep lasts until the first timer. All timers are known at the end of a pass, or if there
		// are none.
		long := wakes && passed && (f.Ended || sh.Stalled+sh.Arm.Held+len(sh.Arm.Late.Clients) == 0)
		if sh.Number == 0 && !sh.Mail.AllowCallers(!long) {
			break
		}
		now := clock.Now()
		d := i.SleepFor(wakes, long, now-i.worked, f.Next)
		if i.lends {
			sh.Mail.Lend(now + clock.Cycles(d))
		}
		woken := sh.Sleeper.Load().Sleep(d)
		if sh.Number == 0 {
			sh.Mail.StopCallers()
		}
		sh.Acquire()
		i.recountClients() // a request served during the sleep may have closed clients
		sh.Release()
		if woken {
			break
		}
	}
	sh.Acquire()
	sh.Asleep.Store(false)
	i.publishAsleep(0)
	i.awake = 0
	sh.Release()
}

// publishAsleep publishes the number of the sleep on the status pages of the clients that
// can wake the device, and calls carriers that need it. When the device is awake, it publishes 0.
func (i *idler) publishAsleep(sleep uint64) {
	i.sh.ReportAsleep(sleep != 0)
	i.publish(i.wakers, sleep)
}

// publishNap publishes the number of a nap, or what is shown while the device is awake, to those that may
// post.
func (i *idler) publishNap(nap uint64) { i.publish(i.posters, nap) }

// publish publishes a value at asleep of the clients to.
func (i *idler) publish(to []*object.Client, sleep uint64) {
	for _, c := range to {
		if _, mine := i.sh.Clients[c]; mine { // false if c has moved or gone since the count
			c.Page.Asleep.Publish(sleep)
		}
	}
}

// SleepFor returns how long to sleep. The result depends on no client's queues or memory. all means that all
// clients wake the device. safe means that everything announced before the barrier has been found. The other
// arguments are in cycles: idle is the time since the last work, and next is the time until the next timer.
func (i *idler) SleepFor(all, safe bool, idle, next uint64) time.Duration {
	d := NapTime
	switch {
	case all && safe:
		d = i.longest(idle)
	case all:
		d = passNap
	case clock.Duration(idle) > soonTime:
		d = LateNap
	}
	return min(d, clock.Duration(next))
}

// longest returns how long to sleep at most so long after the last work, in cycles.
func (i *idler) longest(idle uint64) time.Duration {
	passed := clock.Duration(idle)
	switch {
	case i.bound != SleepTime || passed <= soonTime:
		return i.bound
	case passed <= lateTime:
		return LateSleep
	default:
		return LastSleep
	}
}
