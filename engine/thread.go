package engine

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/nicless/nicless/internal/cpu"
)

// A thread is what a shard runs on.
type thread struct {
	shard     *shard
	sleeper   *sleeper
	unpin     func()
	undoSlice func() // puts back how long the thread runs at a time
	faults    bool   // as it was: whether faults of memory are panics
}

// occupyThread makes the calling goroutine a shard's thread, until leave.
func (sh *shard) occupyThread() (t *thread, err error) {
	runtime.LockOSThread()
	t = &thread{shard: sh}
	if t.unpin, err = sh.pin(); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	t.undoSlice = func() {}
	if sh.cfg.Idle != IdleSpin {
		t.undoSlice = shortTurns()
	}
	// A region can lose its pages although it is sealed (a full tmpfs, a
	// trusted file that shrank). That is a fault of one work request, not of
	// the process.
	t.faults = debug.SetPanicOnFault(true)
	if t.sleeper, err = newSleeper(); err != nil {
		t.leave()
		return nil, err
	}
	sh.measure()
	return t, nil
}

func (t *thread) leave() {
	t.shard.unmeasure()
	if t.sleeper != nil {
		t.sleeper.close()
	}
	debug.SetPanicOnFault(t.faults)
	t.undoSlice()
	t.unpin()
	runtime.UnlockOSThread()
}

// wake wakes the shard if it sleeps.
func (t *thread) wake() {
	if t.shard.asleep.Load() {
		t.sleeper.wake()
	}
}

// A threads is the threads of all shards but the first.
type threads struct {
	stop    context.CancelFunc
	working sync.WaitGroup // until all have stopped
	alive   sync.WaitGroup // until all are gone
	mayEnd  chan struct{}  // closed when they may go
}

// startThreads starts the other shards' threads. An error is that one of them cannot have
// its place; the others are to be dismissed in any case.
func (e *Engine) startThreads(ctx context.Context) (*threads, error) {
	c := &threads{mayEnd: make(chan struct{})}
	ctx, c.stop = context.WithCancel(ctx)
	if first := e.shards[0]; first.several && first.shareCore() {
		e.journal.say(slog.LevelWarn, "as many engine threads as cores: they give way to others after each batch of steps, and are slower",
			"threads", len(e.shards), "cores", runtime.NumCPU(), "GOMAXPROCS", runtime.GOMAXPROCS(0))
	}
	for _, l := range e.shards[1:] {
		placed := make(chan error)
		c.working.Add(1)
		c.alive.Go(func() { c.run(ctx, l, placed) })
		if err := <-placed; err != nil {
			return c, err
		}
	}
	return c, nil
}

// run is the life of one of them. It keeps what it sleeps on until nobody can ask
// for it any more.
func (c *threads) run(ctx context.Context, l *shard, placed chan<- error) {
	t, err := l.occupyThread()
	if err == nil {
		defer t.leave()
		err = t.attachSleeper()
	}
	placed <- err
	if err == nil {
		defer context.AfterFunc(ctx, t.sleeper.wake)()
		l.loop(ctx)
		l.unmeasure() // its last steps are another thread's
	}
	c.working.Done()
	<-c.mayEnd
}

// stopWork has them stop, and returns when they have.
func (c *threads) stopWork() {
	c.stop()
	c.working.Wait()
}

// end ends the threads.
func (c *threads) end() {
	c.stopWork()
	close(c.mayEnd)
	c.alive.Wait()
}

// shareCore reports whether a shard must let others have its core or its P, because
// who posts has no other.
func (sh *shard) shareCore() bool {
	if cpu.Uniprocessor() {
		return true
	}
	return sh.several && (len(sh.shards) >= runtime.GOMAXPROCS(0) || len(sh.shards) >= runtime.NumCPU())
}
