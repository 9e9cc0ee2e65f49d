package engine

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/nicless/nicless/internal/shm"
)

// A thread is what a lane runs on.
type thread struct {
	lane   *lane
	bed    *bed
	unpin  func()
	turns  func() // puts back how long the thread runs at a time
	faults bool   // as it was: whether faults of memory are panics
}

// moveIn makes the calling goroutine a lane's thread, until moveOut.
func (e *lane) moveIn() (t *thread, err error) {
	runtime.LockOSThread()
	t = &thread{lane: e}
	if t.unpin, err = e.pin(); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	t.turns = func() {}
	if e.cfg.Idle != IdleSpin {
		t.turns = shortTurns()
	}
	// A region can lose its pages although it is sealed (a full tmpfs, a
	// trusted file that shrank). That is a fault of one work request, not of
	// the process.
	t.faults = debug.SetPanicOnFault(true)
	if t.bed, err = makeBed(); err != nil {
		t.moveOut()
		return nil, err
	}
	e.measure()
	return t, nil
}

func (t *thread) moveOut() {
	t.lane.unmeasure()
	if t.bed != nil {
		t.bed.close()
	}
	debug.SetPanicOnFault(t.faults)
	t.turns()
	t.unpin()
	runtime.UnlockOSThread()
}

// rouse wakes the lane if it sleeps.
func (t *thread) rouse() {
	if t.lane.asleep.Load() {
		t.bed.rouse()
	}
}

// A crew is the threads of all lanes but the first.
type crew struct {
	stop   context.CancelFunc
	atWork sync.WaitGroup // until all have stopped
	alive  sync.WaitGroup // until all are gone
	over   chan struct{}  // closed when they may go
}

// muster starts the other lanes' threads. An error is that one of them cannot have
// its place; the others are to be dismissed in any case.
func (e *Engine) muster(ctx context.Context) (*crew, error) {
	c := &crew{over: make(chan struct{})}
	ctx, c.stop = context.WithCancel(ctx)
	if first := e.lanes[0]; first.several && first.shareCore() {
		e.journal.say(slog.LevelWarn, "as many engine threads as cores: they give way to others after each batch of steps, and are slower",
			"threads", len(e.lanes), "cores", runtime.NumCPU(), "GOMAXPROCS", runtime.GOMAXPROCS(0))
	}
	for _, l := range e.lanes[1:] {
		placed := make(chan error)
		c.atWork.Add(1)
		c.alive.Go(func() { c.run(ctx, l, placed) })
		if err := <-placed; err != nil {
			return c, err
		}
	}
	return c, nil
}

// run is the life of one of them. It keeps what it sleeps on until nobody can ask
// for it any more.
func (c *crew) run(ctx context.Context, l *lane, placed chan<- error) {
	t, err := l.moveIn()
	if err == nil {
		defer t.moveOut()
		err = t.lieDown()
	}
	placed <- err
	if err == nil {
		defer context.AfterFunc(ctx, t.bed.rouse)()
		l.loop(ctx)
		l.unmeasure() // its last steps are another thread's
	}
	c.atWork.Done()
	<-c.over
}

// halt has them stop, and returns when they have.
func (c *crew) halt() {
	c.stop()
	c.atWork.Wait()
}

// dismiss ends the threads.
func (c *crew) dismiss() {
	c.halt()
	close(c.over)
	c.alive.Wait()
}

// shareCore reports whether a lane must let others have its core or its P, because
// who posts has no other.
func (e *lane) shareCore() bool {
	if shm.Alone() {
		return true
	}
	return e.several && (len(e.lanes) >= runtime.GOMAXPROCS(0) || len(e.lanes) >= runtime.NumCPU())
}
