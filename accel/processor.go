package accel

import (
	"errors"
	"runtime"
	"time"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/cpu"
)

// A processor is a multiprocessor: one thread that executes the lanes of a few blocks, one
// lane after another. Lanes are coroutines, so that thousands of them can share one thread.
// A lane that waits for memory or completions lets the other lanes run.
type processor struct {
	dev    *Device
	blocks []*block
	lanes  []*lane // the lanes that no block uses
	polled [16]hostpath.Completion
	now    *lane // the lane that runs, or was the last to run
	idle   int   // number of consecutive passes in which no lane could run
}

func newProcessor(d *Device) *processor { return &processor{dev: d} }

// run executes blocks until the device is closing. If started is not nil, run sends the
// result of pin to started: an error, or nil.
func (p *processor) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin, err := p.dev.cfg.pin()
	defer unpin()
	if started != nil {
		started <- err
	}
	defer p.dev.all.Done()
	defer p.stop()
	for {
		for len(p.blocks) < p.dev.cfg.Resident {
			g := p.dev.take(len(p.blocks) == 0)
			if g == nil {
				break
			}
			p.blocks = append(p.blocks, p.begin(g))
		}
		if len(p.blocks) == 0 {
			return // the device is closing
		}
		p.pass()
	}
}

// pass runs each lane that need not wait, until that lane waits again or ends.
func (p *processor) pass() {
	closing, moved := p.dev.closing.Load(), false
	for i := 0; i < len(p.blocks); i++ {
		b := p.blocks[i]
		if closing {
			b.grid.fail(ErrClosed)
		}
		got := b.run()
		switch {
		case got:
			moved = true
		case b.stuck():
			b.grid.fail(b.deadlock())
		}
		if b.live == 0 {
			p.lanes = append(p.lanes, b.lanes...)
			p.blocks = append(p.blocks[:i], p.blocks[i+1:]...)
			i--
			b.grid.blockEnded()
		}
	}
	p.rest(moved)
}

// rest gives up the core while all lanes wait, at first for a moment, later for longer.
func (p *processor) rest(moved bool) {
	const (
		spins  = 64
		yields = 4000
	)
	if moved {
		p.idle = 0
		return
	}
	p.idle++
	switch {
	case p.idle < spins && !cpu.Uniprocessor():
		cpu.Relax(4)
	case p.idle < spins+yields:
		cpu.Yield()
	default:
		time.Sleep(50 * time.Microsecond)
	}
}

// Errors after a kernel has ended the goroutine that executed the kernel. errExit is the cause
// in the KernelError of that kernel. errBystander is the error of the other kernels that the
// goroutine executed.
var (
	errExit      = errors.New("runtime.Goexit was called (t.FailNow and t.Skip do that): report to the host instead")
	errBystander = errors.New("accel: another kernel ended the multiprocessor that executed this one (runtime.Goexit)")
)

// stop ends the coroutines. It also runs when a kernel has ended the processor's goroutine.
// In that case no other processor can continue the blocks, because coroutines stay on the
// thread that they were made on.
func (p *processor) stop() {
	for _, b := range p.blocks {
		if b == p.now.t.block {
			b.grid.fail(&KernelError{Block: b.index, Thread: p.now.t.index, Cause: errExit})
		} else {
			b.grid.fail(errBystander)
		}
		p.lanes = append(p.lanes, b.lanes...)
	}
	for _, l := range p.lanes {
		l.stop() // this executes the deferred calls of the lane
	}
	if len(p.blocks) > 0 {
		p.dev.all.Add(1)
		go newProcessor(p.dev).run(nil)
	}
	for _, b := range p.blocks {
		b.grid.blockEnded()
	}
}
