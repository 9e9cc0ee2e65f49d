package accel

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// A Grid says how many lanes execute a kernel. They are organized in blocks of
// threads, as in CUDA, but only in one dimension.
type Grid struct {
	Blocks  int // 1 to 1<<31-1
	Threads int // threads in each block, 1 to 1024
}

// MaxThreads is the most threads that a block can have.
const MaxThreads = 1024

func (g Grid) check() error {
	if g.Blocks < 1 || g.Blocks > 1<<31-1 {
		return fmt.Errorf("accel: grid of %d blocks; 1 to %d are possible", g.Blocks, 1<<31-1)
	}
	if g.Threads < 1 || g.Threads > MaxThreads {
		return fmt.Errorf("accel: blocks of %d threads; 1 to %d are possible", g.Threads, MaxThreads)
	}
	return nil
}

// A Kernel is the program that each lane executes.
type Kernel func(t *Thread)

// A KernelError says why a kernel did not run to its end.
type KernelError struct {
	Block, Thread int    // the first lane that failed
	Cause         error  // after a panic: the value of the panic, as an error
	Stack         []byte // after a panic: its stack; otherwise nil
}

func (e *KernelError) Error() string {
	return fmt.Sprintf("accel: kernel, block %d, thread %d: %v", e.Block, e.Thread, e.Cause)
}

func (e *KernelError) Unwrap() error { return e.Cause }

// A grid is a kernel under way.
type grid struct {
	kernel  Kernel
	blocks  int
	threads int
	done    chan struct{} // closed after the last block

	given  int // blocks that multiprocessors have taken; under the device's mutex
	begun  atomic.Int64
	ended  atomic.Int64
	failed atomic.Bool // whether cause is set; can be read without mu

	mu    sync.Mutex
	cause error // the first error
}

func newGrid(size Grid, k Kernel) *grid {
	return &grid{kernel: k, blocks: size.Blocks, threads: size.Threads, done: make(chan struct{})}
}

// fail makes all blocks end as soon as they can.
func (g *grid) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause == nil {
		g.cause = err
		g.failed.Store(true)
	}
}

func (g *grid) err() error {
	if !g.failed.Load() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// blockEnded counts a block that has ended.
func (g *grid) blockEnded() { g.endBlocks(1) }

// abandon counts the blocks that no multiprocessor has taken as if they had ended. The caller
// holds the device's mutex.
func (g *grid) abandon() { g.endBlocks(g.blocks - g.given) }

func (g *grid) endBlocks(n int) {
	if n > 0 && g.ended.Add(int64(n)) == int64(g.blocks) {
		close(g.done)
	}
}

// next returns the index for a block that was taken.
func (g *grid) next() int { return int(g.begun.Add(1) - 1) }
