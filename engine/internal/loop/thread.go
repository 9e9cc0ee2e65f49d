//go:build linux && (amd64 || arm64)

package loop

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/cpu"
)

// A thread is the locked OS thread that runs a shard. It keeps the settings that the OS thread had before
// occupyThread, and restore sets them again.
type thread struct {
	shard     *Loop
	sleeper   *sleep.Sleeper
	unpin     func() // lets the thread run on the cores on which it was allowed to run before
	undoSlice func() // restores the thread's time slice
	faults    bool   // whether faults of memory were panics before occupyThread
}

// occupyThread locks the calling goroutine to its OS thread, and makes that OS thread the
// shard's thread until restore.
func (sh *Loop) occupyThread() (t *thread, err error) {
	runtime.LockOSThread()
	t = &thread{shard: sh}
	t.unpin, err = sh.Pin()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	t.undoSlice = func() {}
	if sh.Settings.Idle != object.IdleSpin {
		t.undoSlice = cores.ShortenSlice()
	}
	var warning, cure string
	sh.pauser, warning, cure = cores.NewPauser(sh.shareCore())
	if warning != "" {
		sh.Journal.Log(slog.LevelWarn, warning, "cure", cure)
	}
	// A region can lose its pages although it is sealed (a full tmpfs, a trusted file that
	// shrank). With panics on faults, such a loss fails one work request and not the
	// process.
	t.faults = debug.SetPanicOnFault(true)
	t.sleeper, err = sleep.New()
	if err != nil {
		t.restore()
		return nil, err
	}
	sh.Measure()
	return t, nil
}

// restore undoes occupyThread.
func (t *thread) restore() {
	t.shard.Unmeasure()
	if t.sleeper != nil {
		t.sleeper.Close()
	}
	debug.SetPanicOnFault(t.faults)
	t.undoSlice()
	t.unpin()
	runtime.UnlockOSThread()
}

// Pin puts the calling thread on the shard's cores. The caller calls unpin when the thread stops running the
// shard, because from then on the program may use the thread for anything.
func (sh *Loop) Pin() (unpin func(), err error) {
	if sh.Device.Hooks.Unpinned {
		return func() {}, nil
	}
	own := sh.Settings.CPUs
	if sh.Settings.Cores != nil {
		own = sh.Settings.Cores[sh.Number : sh.Number+1]
	}
	return cores.Pin(own, sh.Settings.DMACores)
}

// wake wakes the shard if it sleeps.
func (t *thread) wake() {
	if t.shard.Asleep.Load() {
		t.sleeper.Wake()
	}
}

// attachSleeper gives the shard the thread's sleeper, after adding the eventfds of the
// shard's clients to it.
func (t *thread) attachSleeper() error {
	for c := range t.shard.Clients {
		if c.Wake.FD == nil {
			continue
		}
		if err := t.sleeper.Add(c.Wake.FD); err != nil {
			return fmt.Errorf("engine: what it sleeps on: %w", err)
		}
	}
	t.shard.Sleeper.Store(t.sleeper)
	return nil
}

// detachSleepers takes the sleepers from all shards, because no thread runs the shards any
// more.
func (e *Runner) detachSleepers() {
	for _, sh := range e.Shards {
		sh.Sleeper.Store(nil)
	}
}

// threads are the threads of all shards except the first.
type threads struct {
	stop    context.CancelFunc
	working sync.WaitGroup // reaches zero when all threads have stopped stepping
	alive   sync.WaitGroup // reaches zero when all goroutines have returned
	mayEnd  chan struct{}  // closed when the goroutines may return
}

// startThreads starts the threads of all shards except the first. It returns an error if
// one of them cannot be put on its core. The caller ends the threads, also after an error.
func (e *Runner) startThreads(ctx context.Context) (*threads, error) {
	t := &threads{mayEnd: make(chan struct{})}
	ctx, t.stop = context.WithCancel(ctx)
	if first := e.Loops[0]; first.Several && first.shareCore() {
		e.Journal.Log(slog.LevelWarn, "there are as many engine threads as cores, so each thread yields after each batch of steps, which is slower",
			"threads", len(e.Shards), "cores", runtime.NumCPU(), "GOMAXPROCS", runtime.GOMAXPROCS(0))
	}
	for _, sh := range e.Loops[1:] {
		placed := make(chan error)
		t.working.Add(1)
		t.alive.Go(func() { t.run(ctx, sh, placed) })
		if err := <-placed; err != nil {
			return t, err
		}
	}
	return t, nil
}

// run is the whole life of the thread of one shard. The thread keeps its sleeper until
// mayEnd is closed, because other threads may wake it until then.
func (all *threads) run(ctx context.Context, sh *Loop, placed chan<- error) {
	t, err := sh.occupyThread()
	if err == nil {
		defer t.restore()
		err = t.attachSleeper()
	}
	placed <- err
	if err == nil {
		defer context.AfterFunc(ctx, t.sleeper.Wake)()
		sh.loop(ctx)
		sh.Unmeasure() // another thread makes the last steps of this shard
	}
	all.working.Done()
	<-all.mayEnd
}

// stopWork makes the threads stop stepping, and returns when all have stopped.
func (t *threads) stopWork() {
	t.stop()
	t.working.Wait()
}

// end stops the threads and waits until their goroutines have returned.
func (t *threads) end() {
	t.stopWork()
	close(t.mayEnd)
	t.alive.Wait()
}

// shareCore reports whether a shard must yield its core or its P now and then, because
// posters have no other core or P to run on.
func (sh *Loop) shareCore() bool {
	if cpu.Uniprocessor() {
		return true
	}
	return sh.Several && (len(sh.Shards) >= runtime.GOMAXPROCS(0) || len(sh.Shards) >= runtime.NumCPU())
}
