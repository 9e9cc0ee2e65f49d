package nicless

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// Limits bound what one client may take: regions, their bytes, PDs, MRs, CQs, QPs
// and channels. Zero fields mean the defaults.
//
//	Regions, PDs, MRs, CQs, QPs, Channels int
//	Bytes uint64 // of all regions together
type Limits = engine.Limits

// Config says how an engine behaves. The zero value is right for most.
type Config struct {
	// CPUs lists the cores that the engine's thread may run on. Nil leaves the
	// choice to the kernel.
	CPUs []int

	// Cores lists cores that get a thread of the engine each, in place of CPUs.
	// Clients are divided among them, and those that are connected to each other
	// come together on one where that is possible: only what goes on between
	// clients of one thread goes on beside what the others do. For Serve: Open has
	// one client. See docs/TUNING.md.
	Cores []int

	// Stay keeps each client on the thread that it was given first.
	Stay bool

	// DMACores lists cores on each of which a thread of the engine does nothing but
	// copy, for transfers of 256 KiB and more, while the engine goes on with other
	// work. None of CPUs can be among them, and several Cores cannot be had beside
	// them. Nil means none: the engine copies itself.
	DMACores []int

	// Spin keeps the engine from sleeping while there is no work: the first
	// work after a pause is executed at once, and the core is the engine's
	// alone.
	Spin bool

	// Monitor is Spin on a core that rests between looks, by UMWAIT: it takes less
	// power and leaves more to its hyperthread; the first work on another queue than
	// the last is found a microsecond later. A processor without WAITPKG spins, and
	// Log is told.
	Monitor bool

	// Populate takes all pages of a region from the system when the region is made, off
	// the engine's thread and at the engine's expense. Then a client cannot hold up the
	// thread by keeping its pages swapped out, in a memory cgroup of its own. Making
	// 1 MiB takes 0.5 to 1.5 ms more, and memory that is never used is taken all the same.
	Populate bool

	// Limits bound what one client may take. Zero fields mean the defaults.
	Limits Limits

	// VerbsDevices is how many devices Serve shows to programs that use rdma-core,
	// in the directory PATH.verbs beside the socket. 0: none. Open does not look at
	// it.
	VerbsDevices int

	// Log receives what the device has to say about faults, on a goroutine of
	// its own: the last of it when the context is closed, or Serve returns; not
	// if the program ends before, by os.Exit for instance. Nil means that
	// nothing is said.
	Log *slog.Logger
}

// Open starts an engine inside this program and returns a client of it. The
// engine ends when the context is closed. For an engine that other processes
// use, see [Serve].
func Open(cfg Config) (*Context, error) {
	if len(cfg.Cores) > 1 {
		return nil, fmt.Errorf("nicless: Open with Cores %v; an engine inside a program has one client, which one thread serves", cfg.Cores)
	}
	ec, err := cfg.engine()
	if err != nil {
		return nil, err
	}
	dev, err := newEmbedded(ec)
	if err != nil {
		return nil, err
	}
	return newContext(dev, cfg.Log)
}

// An embedded device is an engine of this process and one client of it. It
// serves the requests that an engine process serves, byte for byte; only
// memory need not be mapped twice.
type embedded struct {
	engine *engine.Engine
	client nic.Client
	cancel context.CancelFunc
	done   chan struct{} // closed when the engine has stopped
	failed error         // of Run; readable once done is closed
	once   sync.Once
}

func newEmbedded(cfg engine.Config) (*embedded, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &embedded{engine: e, cancel: cancel, done: make(chan struct{})}
	started := make(chan struct{})
	go func() {
		defer close(d.done)
		d.failed = e.Run(ctx, func() { close(started) })
	}()
	select {
	case <-started:
	case <-d.done:
		cancel()
		return nil, d.failed
	}
	if d.client, err = nic.Of(e).AttachLocal("embedded"); err != nil {
		cancel()
		<-d.done
		return nil, err
	}
	return d, nil
}

// flushTime is how long the end of an engine waits for whoever takes its log.
const flushTime = time.Second

func (d *embedded) Done() <-chan struct{} { return d.done }

func (d *embedded) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	payload := control.Append(nil, op, 0, 0, req)[control.HeaderSize:]
	m, r, err := d.client.Call(op, payload)
	if err != nil {
		return r, err
	}
	return r, control.Parse(op, control.Append(nil, op, control.FlagAnswer, 0, m)[control.HeaderSize:], ans)
}

// NewRegion makes memory of the kind that the race detector can follow, where it
// is on: client and device share one mapping here.
func (d *embedded) NewRegion(name string, size int) (mem *shm.Region, id uint32, err error) {
	if shm.RaceEnabled {
		mem, err = shm.Heap(size)
	} else {
		mem, err = shm.CreateSealed(name, size)
	}
	if err != nil {
		return nil, 0, err
	}
	if err = mem.Forget(); err == nil {
		id, err = d.client.AddRegion(mem.Addr(), mem)
	}
	if err != nil {
		_ = mem.Close()
		return nil, 0, err
	}
	return mem, id, nil
}

func (d *embedded) Close() (err error) {
	d.once.Do(func() {
		err = d.client.Close()
		d.cancel()
		<-d.done
		d.engine.FlushLog(flushTime)
	})
	return err
}
