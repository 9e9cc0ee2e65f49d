package ptx

import (
	"context"
	"errors"
	"io"

	"github.com/nicless/nicless/accel/ptx/internal/machine"
)

// Stack is how many bytes a lane has for the frames of functions that are called by address, or that call
// themselves, if a launch does not say: as many as CUDA's default. Frames of functions that are called by
// name have memory of their own.
const Stack = 1024

// A Launch says how a kernel is executed.
type Launch struct {
	Grid    [3]uint32 // blocks
	Block   [3]uint32 // threads of a block
	Shared  uint64    // bytes that are added to the shared memory of each block
	Params  []byte    // as Arguments returns them
	Stack   uint64    // bytes; 0 means Stack
	Workers int       // threads that execute blocks; 0 means 1
	Print   io.Writer // of printf; nil: nowhere

	// Cooperative lets the blocks of the grid meet (grid_group::sync of CUDA's cooperative groups, which ends
	// the kernel by a trap without it). Of more than Resident blocks some wait for ever.
	Cooperative bool

	// Late is the memory through which lanes reach the process's, if it is not nil: see Late. One worker
	// executes the grid then.
	Late *Late

	// Pin is called by each worker before it begins, if it is not nil, and what it returns at its end.
	Pin func() (unpin func(), err error)
}

// A multiprocessor has at most so many threads, blocks and bytes of shared memory at a time.
const (
	MultiprocessorThreads = machine.MultiprocessorThreads
	MultiprocessorBlocks  = machine.MultiprocessorBlocks
	MultiprocessorShared  = machine.MultiprocessorShared
)

// Resident returns how many blocks of so many threads, and with so many bytes of dynamic shared memory, a
// multiprocessor has at a time, 0 if there cannot be such blocks. A grid is executed as by 132
// multiprocessors: lanes of blocks that have no room begin when others have ended. Safe for concurrent use.
func (k *Kernel) Resident(threads int, shared uint64) int { return k.kernel.Resident(threads, shared) }

// launch is l as the machine takes it.
func (k *Kernel) launch(l Launch) machine.Launch {
	if l.Stack == 0 {
		l.Stack = Stack
	}
	m := machine.Launch{
		Kernel: k.kernel, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Params: l.Params, Stack: l.Stack,
		Workers: l.Workers, Space: k.program.space, Print: l.Print, Pin: l.Pin, Cooperative: l.Cooperative,
	}
	if l.Late != nil {
		m.Order, m.Place = l.Late.memory, l.Late.place(k)
	}
	return m
}

// Check returns why a launch is impossible, or nil. ErrLaunch is in the error's chain.
func (k *Kernel) Check(l Launch) error {
	m := k.launch(l)
	return m.Check()
}

// Run executes a grid to its end, and returns why it ended early: a *Fault, a *Deadlock, or the cause of the
// end of ctx. An impossible launch has ErrLaunch in its chain.
func (k *Kernel) Run(ctx context.Context, l Launch) (err error) {
	arena, err := k.program.begin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.program.end(arena)) }()
	m := k.launch(l)
	m.Arena = arena
	g, err := machine.NewGrid(m)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { g.Stop(context.Cause(ctx)) })()
	return public(g.Run())
}
