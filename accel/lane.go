package accel

import (
	"fmt"
	"iter"
	"runtime/debug"
)

// A wait says what a lane waits for.
type wait uint8

const (
	forNothing wait = iota
	forSync         // the other lanes of the block
	forWarp         // the other lanes of the warp
	forBatch        // the other lanes of the warp, at PutWarp
	forWord         // a value in memory
	forDone         // completions of a queue
	forRoom         // room in a queue
	ended           // nothing: the lane has ended
	numWaits
)

// A lane is a coroutine that executes kernels, one after another.
type lane struct {
	t     Thread
	proc  *processor
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
	wait  wait
	round uint64    // forSync, forWarp, forBatch: number of the round that must be complete
	until condition // forWord
	queue *Queue    // forDone, forRoom
	count uint64    // forDone: count of the blocks that must be complete; forRoom: blocks that must be free
}

func newLane(p *processor) *lane {
	l := &lane{proc: p, wait: ended}
	l.t.lane = l
	l.next, l.stop = iter.Pull(l.life)
	return l
}

// life is the function that the coroutine runs. It executes the kernels that begin sets, one
// after another.
func (l *lane) life(yield func(struct{}) bool) {
	l.yield = yield
	for {
		l.execute()
		l.t.block.leave(l)
		l.wait = ended
		if !yield(struct{}{}) {
			return
		}
	}
}

// begin sets the block whose kernel the lane executes when it is resumed.
func (l *lane) begin(b *block, index int) {
	l.t.block, l.t.index, l.t.fence, l.t.puts = b, index, 0, 0
	l.wait = forNothing
}

func (l *lane) resume() { l.next() }

func (l *lane) warp() *warp { return &l.t.block.warps[l.t.index/WarpSize] }

// unwind is the panic value that ends a kernel when its grid has failed.
type unwind struct{}

// execute runs the kernel until it returns, panics, or is unwound.
func (l *lane) execute() {
	defer func() {
		e := &KernelError{Block: l.t.block.index, Thread: l.t.index}
		switch v := recover().(type) {
		case nil, unwind:
			return
		case *refused:
			e.Cause = v
		default:
			e.Cause, e.Stack = panicked(v), debug.Stack()
		}
		l.t.block.grid.fail(e)
	}()
	if g := l.t.block.grid; !g.failed.Load() {
		g.kernel(&l.t)
		l.t.leavePuts()
	}
}

// panicked returns v, the value of a kernel's panic, as an error. If v is an error whose
// methods panic, only a text is returned.
func panicked(v any) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("panic: %v", v) // fmt recovers panics of such methods
		}
	}()
	cause, ok := v.(error)
	if !ok {
		return fmt.Errorf("panic: %v", v)
	}
	_ = cause.Error()
	return fmt.Errorf("panic: %w", cause)
}

// pause lets other lanes run until this lane is ready or the grid has failed.
func (l *lane) pause(w wait) {
	l.wait = w
	if !l.yield(struct{}{}) || l.t.block.grid.failed.Load() {
		panic(unwind{})
	}
	l.wait = forNothing
}

// ready reports whether the lane no longer has to wait.
func (l *lane) ready() bool {
	switch l.wait {
	case forSync:
		return l.t.block.round != l.round
	case forWarp:
		return l.warp().round != l.round
	case forBatch:
		return l.warp().puts.first > l.round
	case forWord:
		return l.until.holds()
	case forDone:
		return l.queue.done(l.proc, l.count)
	case forRoom:
		return l.queue.room(l.proc, l.count)
	}
	return true
}
