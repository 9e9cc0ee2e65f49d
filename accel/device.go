package accel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/accel/ptx"
)

// WarpSize is the number of lanes in a warp.
const WarpSize = 32

// ErrClosed reports the use of a closed device, or a kernel that was running when
// its device was closed.
var ErrClosed = errors.New("accel: device is closed")

// Config is the configuration of a device. The zero value works.
type Config struct {
	// Multiprocessors is how many threads execute kernels; zero means 1. Each thread spins
	// while its lanes wait, and so more threads than the machine has cores do not help.
	Multiprocessors int

	// Resident is how many blocks a multiprocessor has under way at once; zero means 8. At
	// most Multiprocessors times Resident blocks of a grid run at once. The number of blocks
	// that wait for each other must not be greater than that product.
	Resident int

	// CPUs lists the cores that the multiprocessors may run on. Nil leaves the choice to
	// the operating system, which may put a multiprocessor on the engine's core. With a
	// busy engine, list the engine's cores in nicless.Config and other cores here.
	CPUs []int
}

// A Device is an emulated accelerator. Its methods are safe for concurrent use.
type Device struct {
	cfg     Config
	closing atomic.Bool
	closed  chan struct{}   // closed when closing is set
	all     sync.WaitGroup  // multiprocessors and streams
	life    context.Context // ends, because of ErrClosed, when closing is set
	end     context.CancelCauseFunc
	space   ptx.Space // memory that PTX kernels reach

	mu      sync.Mutex
	work    *sync.Cond // multiprocessors without a block wait on it
	grids   []*grid    // grids with blocks that no multiprocessor has taken yet
	streams map[*Stream]struct{}
}

// New starts a device.
func New(cfg Config) (*Device, error) {
	for _, f := range []struct {
		name      string
		v         *int
		def, most int
	}{
		{"Multiprocessors", &cfg.Multiprocessors, 1, 256},
		{"Resident", &cfg.Resident, 8, 1024},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 1 || *f.v > f.most {
			return nil, fmt.Errorf("accel: %s %d; 1 to %d are possible", f.name, *f.v, f.most)
		}
	}
	d := &Device{cfg: cfg, closed: make(chan struct{}), streams: make(map[*Stream]struct{})}
	d.work = sync.NewCond(&d.mu)
	d.life, d.end = context.WithCancelCause(context.Background())
	started := make(chan error)
	for range cfg.Multiprocessors {
		d.all.Add(1)
		go newProcessor(d).run(started)
	}
	var failed error
	for range cfg.Multiprocessors {
		failed = cmp.Or(<-started, failed)
	}
	if failed != nil {
		_ = d.Close()
		return nil, failed
	}
	return d, nil
}

// Close ends the device. Running kernels end with ErrClosed at the next point where they
// wait for something, and Close waits for their end. Requests that they have posted are
// executed nevertheless. A second Close has no effect.
func (d *Device) Close() error {
	if d == nil || d.closed == nil {
		return ErrClosed
	}
	if d.closing.Swap(true) {
		return nil
	}
	close(d.closed)
	d.end(ErrClosed)
	d.mu.Lock()
	for s := range d.streams {
		s.end()
	}
	d.work.Broadcast()
	d.mu.Unlock()
	d.all.Wait()
	return nil
}

// start offers the blocks of g to the multiprocessors.
func (d *Device) start(g *grid) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing.Load() {
		g.fail(ErrClosed)
		g.abandon()
		return
	}
	d.grids = append(d.grids, g)
	d.work.Broadcast()
}

// take takes a block that is not executed yet and returns its grid, or nil if there is none.
// If wait is true, take waits for a block, and returns nil only when the device is closing.
func (d *Device) take(wait bool) *grid {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for i := 0; i < len(d.grids); i++ {
			g := d.grids[i]
			if d.closing.Load() {
				g.fail(ErrClosed)
			}
			if g.err() != nil {
				d.grids = append(d.grids[:i], d.grids[i+1:]...)
				g.abandon()
				i--
				continue
			}
			g.given++
			if g.given == g.blocks {
				d.grids = append(d.grids[:i], d.grids[i+1:]...)
			}
			return g
		}
		if !wait || d.closing.Load() {
			return nil
		}
		d.work.Wait()
	}
}
