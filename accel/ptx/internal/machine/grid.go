package machine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/accel/ptx/internal/order"
	"github.com/nicless/nicless/internal/cpu"
)

// A Launch says what a grid executes.
type Launch struct {
	Kernel  *Kernel
	Grid    [3]uint32
	Block   [3]uint32
	Shared  uint64    // bytes that are added to the shared memory of each block
	Params  []byte    // the parameters, each at its offset
	Stack   uint64    // bytes of a lane for frames of functions that are not called by name, or again
	Workers int       // threads that execute blocks
	Space   *Space    // memory that the kernel reaches
	Arena   *Arena    // memory for the grid
	Print   io.Writer // of printf; nil: nowhere

	// Cooperative gives the grid a workspace, in which its blocks meet.
	Cooperative bool

	// Order is the memory through which lanes reach the process's, if it is not nil. One worker executes
	// the grid then, so that a seed repeats what it does.
	Order *order.Memory
	Place int // of the kernel's first instruction among those of all programs that use Order

	// Pin is called by each worker before it begins, if it is not nil, and what it returns at its end.
	Pin func() (unpin func(), err error)
}

// Limits of a launch: those of GPUs of compute capability 9.0 (CUDA C++ Programming Guide, table "Technical
// Specifications per Compute Capability").
const (
	maxThreads = 1024 // of a block
	maxShared  = MultiprocessorShared - reservedShared
	maxGridX   = math.MaxInt32
	maxGridYZ  = math.MaxUint16
	maxBlockZ  = 64
)

// ErrLaunch is in the chain of errors of launches that are impossible.
var ErrLaunch = errors.New("impossible launch")

// MaxThreads returns the most threads that a block of a kernel may have.
func (k *Kernel) MaxThreads() int64 {
	for _, name := range []string{"reqntid", "maxntid"} {
		if l, ok := k.Limits[name]; ok {
			most := int64(1)
			for _, n := range l { // each is at most 2^31
				most = min(most*n, maxThreads)
			}
			return most
		}
	}
	return maxThreads
}

// SharedBytes returns how many bytes of shared memory a block has before a launch adds any.
func (k *Kernel) SharedBytes() int64 { return k.prog.shared }

// Check reports whether a launch is possible.
func (l *Launch) Check() error {
	k := l.Kernel
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", k.Name, ErrLaunch, fmt.Sprintf(format, args...))
	}
	for i, most := range [3]uint32{maxGridX, maxGridYZ, maxGridYZ} {
		if l.Grid[i] < 1 || l.Grid[i] > most {
			return wrong("a grid of %v blocks; at most %d by %d by %d are possible",
				l.Grid, maxGridX, maxGridYZ, maxGridYZ)
		}
	}
	for i, most := range [3]uint32{maxThreads, maxThreads, maxBlockZ} {
		if l.Block[i] < 1 || l.Block[i] > most {
			return wrong("blocks of %v threads; at most %d by %d by %d are possible",
				l.Block, maxThreads, maxThreads, maxBlockZ)
		}
	}
	block := [3]int64{int64(l.Block[0]), int64(l.Block[1]), int64(l.Block[2])}
	if r, ok := k.Limits["reqntid"]; ok && r != block {
		return wrong("blocks of %v threads; the kernel requires blocks of %v", l.Block, r)
	}
	if n := int64(l.Block[0] * l.Block[1] * l.Block[2]); n > k.MaxThreads() {
		return wrong("blocks of %d threads; at most %d are possible for this kernel", n, k.MaxThreads())
	}
	if n := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2]); n > maxGridX {
		return wrong("%d blocks; at most %d are possible", n, maxGridX)
	}
	if n := l.frameBytes(); l.Stack > maxFrame || n > maxFrame {
		return wrong("%d bytes of local memory for a thread, with the stack; at most %d are possible", n, maxFrame)
	}
	if n := uint64(k.prog.shared) + l.Shared; l.Shared > maxShared || n > maxShared {
		return wrong("%d bytes of shared memory and %d of the launch; at most %d are possible",
			k.prog.shared, l.Shared, maxShared)
	}
	if int64(len(l.Params)) != k.ParamBytes {
		return wrong("%d bytes of parameters; the kernel has %d", len(l.Params), k.ParamBytes)
	}
	return nil
}

// A Grid is a kernel that is executed.
type Grid struct {
	launch     Launch
	kernel     *Kernel
	count      int    // of blocks
	threads    int    // of a block
	params     uint64 // the address of the parameters
	paramBytes uint64
	frameBytes uint64
	workspace  uint64 // its address; 0: there is none
	failed     atomic.Bool
	mu         sync.Mutex // of what follows, and of the arena
	err        error
}

// NewGrid makes a grid of a launch.
func NewGrid(l Launch) (*Grid, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	k := l.Kernel
	g := &Grid{launch: l, kernel: k, paramBytes: uint64(k.ParamBytes)}
	g.frameBytes = l.frameBytes()
	g.count = int(l.Grid[0] * l.Grid[1] * l.Grid[2])
	g.threads = int(l.Block[0] * l.Block[1] * l.Block[2])
	address, params, err := l.Arena.Allocate(k.ParamBytes, 256)
	if err != nil {
		return nil, err
	}
	g.params = address
	copy(params, l.Params)
	if l.Cooperative {
		g.workspace, err = newWorkspace(l.Arena)
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

// newBlock makes a block without a number.
func (g *Grid) newBlock() (*block, error) {
	b := &block{grid: g, sharedBytes: uint64(g.kernel.prog.shared) + g.launch.Shared}
	lanes := int64(g.threads+Lanes-1) &^ (Lanes - 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	shared, _, err := g.launch.Arena.Allocate(int64(b.sharedBytes)+1, 1024)
	if err != nil {
		return nil, err
	}
	frames, _, err := g.launch.Arena.Allocate(int64(g.frameBytes)*lanes, 16)
	if err != nil {
		return nil, err
	}
	b.shared, b.frames = shared, frames
	for first := 0; first < g.threads; first += Lanes {
		w := &warp{block: b, prog: g.kernel.prog, index: first / Lanes}
		w.room(g.kernel.Slots+1, g.kernel.Predicates+1)
		b.warps = append(b.warps, w)
	}
	return b, nil
}

// begin gives a block, whose lanes have ended, the next number.
func (b *block) begin(n uint32) {
	g := b.grid
	x, y := g.launch.Grid[0], g.launch.Grid[1]
	b.index = [3]uint32{n % x, n / x % y, n / x / y}
	b.live = g.threads
	b.barriers = [numBarriers]barrier{}
	var shared *order.Shared
	if g.launch.Order != nil {
		shared = g.launch.Order.NewBlock()
	}
	for _, w := range b.warps {
		w.live = uint32(uint64(1)<<min(Lanes, g.threads-w.index*Lanes) - 1)
		w.held, w.asleep, w.lanes = 0, 0, nil
		for range Lanes {
			if shared != nil {
				w.lanes = append(w.lanes, shared.NewLane())
			}
		}
		w.frames = append(w.frames[:0], frame{fn: g.kernel.function})
		for i := range w.pc {
			w.pc[i], w.frame[i] = g.kernel.begin, 0
		}
	}
}

// Run executes the grid to its end, and returns why it ended early, or nil: a *Fault, a *Deadlock, or what
// Stop was called with.
func (g *Grid) Run() error {
	var all sync.WaitGroup
	n := max(1, min(g.launch.Workers, g.count))
	if g.launch.Order != nil {
		n = 1
		defer g.launch.Order.Flush()
	}
	for i := range n {
		all.Go(func() { g.work(i, n) })
	}
	all.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Stop ends the grid, unless it has ended: each warp at the end of its turn. It may be called at any time by
// anybody.
func (g *Grid) Stop(why error) { g.fail(why) }

func (g *Grid) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		g.failed.Store(true)
	}
}

// work executes every n-th block. As many blocks as a GPU has room for are resident together.
func (g *Grid) work(first, n int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if g.launch.Pin != nil {
		unpin, err := g.launch.Pin()
		if err != nil {
			g.fail(err)
			return
		}
		defer unpin()
	}
	var mine, ended []*block
	most := max(1, multiprocessors*g.kernel.Resident(g.threads, g.launch.Shared)/n)
	for idle := 0; !g.failed.Load(); {
		for ; len(mine) < most && first < g.count; first += n {
			b, err := g.anyBlock(&ended)
			if err != nil {
				g.fail(err)
				return
			}
			b.begin(uint32(first))
			mine = append(mine, b)
		}
		if len(mine) == 0 {
			return
		}
		done := stuck
		live := mine[:0]
		for _, b := range mine {
			p, err := b.try()
			if err != nil {
				g.fail(err)
				return
			}
			done = max(done, p)
			if b.live > 0 {
				live = append(live, b)
			} else {
				ended = append(ended, b)
			}
		}
		mine = live
		idle++
		if done == working {
			idle = 0
		}
		rest(idle)
	}
}

// anyBlock returns a block of the list, or a new one.
func (g *Grid) anyBlock(ended *[]*block) (*block, error) {
	if last := len(*ended) - 1; last >= 0 {
		b := (*ended)[last]
		*ended = (*ended)[:last]
		return b, nil
	}
	return g.newBlock()
}

// rest gives up the core while all lanes of a worker wait, at first for a moment, later for longer. idle is
// for how many turns they have waited.
func rest(idle int) {
	const (
		spins  = 64
		yields = 4000
	)
	switch {
	case idle == 0:
	case idle < spins && !cpu.Uniprocessor():
		cpu.Relax(4)
	case idle < spins+yields:
		cpu.Yield()
	default:
		time.Sleep(50 * time.Microsecond)
	}
}

// print prints for a kernel.
func (g *Grid) print(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.launch.Print != nil {
		_, _ = io.WriteString(g.launch.Print, text)
	}
}
