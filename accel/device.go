package accel

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// WarpSize is the number of lanes that make a warp.
const WarpSize = 32

// ErrClosed reports the use of a device that is closed, or a kernel that was
// running when it was.
var ErrClosed = errors.New("accel: device is closed")

// Config says what a device is like. The zero value works.
type Config struct {
	// Multiprocessors is how many threads execute kernels; zero means 1. Each spins while
	// its lanes wait, so more threads than the machine has cores do not help.
	Multiprocessors int

	// Resident is how many blocks a multiprocessor executes in turn; zero means 8. At most
	// Multiprocessors times Resident blocks of a grid run at once, so blocks that wait for
	// each other must not be more than that.
	Resident int

	// CPUs lists the cores that the multiprocessors may run on. Nil leaves the choice to
	// the kernel, which may put one of them on the engine's core. With a busy engine, list
	// the other cores here, and the engine's in nicless.Config.
	CPUs []int
}

// A Device is an emulated accelerator. Its methods are safe for concurrent use.
type Device struct {
	cfg     Config
	closing atomic.Bool
	closed  chan struct{}  // closed with closing
	all     sync.WaitGroup // multiprocessors and streams

	mu      sync.Mutex
	work    *sync.Cond // of multiprocessors without a block
	grids   []*grid    // that have blocks to give out
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

// Close ends the device. Kernels that are running end with ErrClosed at the next point
// where they wait for something; Close waits for that. Requests that they have posted are
// executed all the same. Closing twice does nothing.
func (d *Device) Close() error {
	if d == nil || d.closed == nil {
		return ErrClosed
	}
	if d.closing.Swap(true) {
		return nil
	}
	close(d.closed)
	d.mu.Lock()
	for s := range d.streams {
		s.end()
	}
	d.work.Broadcast()
	d.mu.Unlock()
	d.all.Wait()
	return nil
}

// start gives the blocks of g to the multiprocessors.
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

// take returns the grid of a block that is not executed yet, or nil. With wait it waits
// for one; nil then means that the device is closing.
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
			if g.given++; g.given == g.blocks {
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
