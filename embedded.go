//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/summary"
	"github.com/nicless/nicless/server"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/verbs"
	"golang.org/x/sys/unix"
)

// openEmbedded starts an engine in this process.
func openEmbedded(cfg Config) (device, error) {
	ec, err := cfg.engine()
	if err != nil {
		return nil, err
	}
	f, err := cfg.Memory.open()
	if err != nil {
		return nil, err
	}
	d, err := newEmbedded(ec, f)
	if err != nil {
		return nil, err
	}
	d.table, err = cfg.openLinks(context.Background(), d.engine)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// An embedded device is an engine in this process and the one client of that engine. It
// serves the same requests as an engine in another process, byte for byte. The only
// difference is that memory need not be mapped twice.
type embedded struct {
	engine *engine.Engine
	client nic.Client
	cancel context.CancelFunc
	done   chan struct{} // closed when the engine has stopped
	failed error         // the result of Run; readable once done is closed
	once   sync.Once
	table  *links.Table // links to other engines; nil until they are open
	file   *fileMemory  // memory of all regions; nil: each is a memfd

	mu    sync.Mutex
	apart bool                   // the engine gets its own mapping of each region that is made; see separable
	own   map[uint32]*shm.Region // these mappings, by number of the region
}

// newEmbedded starts an engine. The device owns f, which may be nil.
func newEmbedded(cfg engine.Config, f *fileMemory) (_ *embedded, err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &embedded{engine: e, cancel: cancel, done: make(chan struct{}), file: f}
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
	var registers func(size int) (*shm.Region, error)
	if f != nil {
		registers = f.registers
	}
	d.client, err = nic.Of(e).AttachLocal("embedded", registers)
	if err != nil {
		cancel()
		<-d.done
		return nil, err
	}
	return d, nil
}

// flushTime is how long Close waits for the handler of the engine's log.
const flushTime = time.Second

func (d *embedded) Done() <-chan struct{} { return d.done }

func (d *embedded) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	payload := control.Append(nil, op, 0, 0, req)[control.HeaderSize:]
	m, r, err := d.client.Call(op, payload)
	if err != nil {
		return r, err
	}
	if id, ok := req.(*control.RegionID); ok && op == control.OpDropRegion {
		if d.file != nil {
			d.file.drop(id.ID)
		}
		d.unmapOwn(id.ID)
	}
	return r, control.Parse(op, control.Append(nil, op, control.FlagAnswer, 0, m)[control.HeaderSize:], ans)
}

// lend implements lending.
func (d *embedded) lend() nic.Steps {
	if l, ok := nic.Of(d.engine).(nic.Lender); ok {
		if s := l.Lend(d.client); s != nil {
			return *s
		}
	}
	return nic.Steps{}
}

// NewRegion makes memory that client and device use through one mapping. If the race
// detector is on, the memory is on the heap, where the race detector can follow accesses.
func (d *embedded) NewRegion(name string, size int) (mem *shm.Region, id uint32, err error) {
	if d.file != nil {
		return d.newRegionInFile(size)
	}
	switch {
	case shm.RaceEnabled:
		mem, err = shm.Heap(size)
	case d.apartNow():
		return d.newRegionApart(name, size)
	default:
		mem, err = shm.CreateSealed(name, size)
	}
	if err != nil {
		return nil, 0, err
	}
	if err = mem.CloseFile(); err == nil {
		id, err = d.client.AddRegion(mem.Addr(), mem)
	}
	if err != nil {
		_ = mem.Close()
		return nil, 0, err
	}
	return mem, id, nil
}

// newRegionApart makes memory that client and device use through different mappings.
func (d *embedded) newRegionApart(name string, size int) (_ *shm.Region, id uint32, err error) {
	mem, err := shm.Create(name, size)
	if err != nil {
		return nil, 0, err
	}
	own, err := mem.MapAgain()
	if err != nil {
		_ = mem.Close()
		return nil, 0, err
	}
	if err = errors.Join(mem.Seal(), mem.CloseFile()); err == nil {
		id, err = d.client.AddRegion(mem.Addr(), own)
	}
	if err != nil {
		_ = errors.Join(mem.Close(), own.Close())
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own[id] = own
	return mem, id, nil
}

// separate implements separable.
func (d *embedded) separate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own == nil {
		d.apart, d.own = true, make(map[uint32]*shm.Region)
	}
}

// separated implements separable.
func (d *embedded) separated(region uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own[region] != nil
}

func (d *embedded) apartNow() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.apart
}

// unmapAllOwn unmaps the engine's mappings of all regions. The engine does not use them any more.
func (d *embedded) unmapAllOwn() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, own := range d.own {
		err = errors.Join(err, own.Close())
	}
	clear(d.own)
	return err
}

// unmapOwn unmaps the engine's mapping of a region that the engine does not use any more, if it has one.
func (d *embedded) unmapOwn(id uint32) {
	d.mu.Lock()
	own := d.own[id]
	delete(d.own, id)
	d.mu.Unlock()
	if own != nil {
		_ = own.Close()
	}
}

// newRegionInFile makes memory in the file that the program has given.
func (d *embedded) newRegionInFile(size int) (mem *shm.Region, id uint32, err error) {
	mem, at, err := d.file.take(size)
	if err != nil {
		return nil, 0, err
	}
	if id, err = d.client.AddRegion(mem.Addr(), mem); err != nil {
		_ = mem.Close()
		d.file.give(at)
		return nil, 0, err
	}
	d.file.keep(id, at)
	return mem, id, nil
}

func (d *embedded) memory() *fileMemory { return d.file }

func (d *embedded) Close() (err error) {
	d.once.Do(func() {
		err = d.client.Close()
		if d.table != nil {
			err = errors.Join(err, d.table.Close())
		}
		d.cancel()
		<-d.done
		d.engine.FlushLog(flushTime)
		d.file.close()
		err = errors.Join(err, d.unmapAllOwn())
	})
	return err
}

// serveSocket implements Serve.
func serveSocket(ctx context.Context, path string, mode fs.FileMode, cfg Config, ready func()) error {
	listen := func(e *engine.Engine) (*server.Listener, error) { return server.Listen(e, path, mode) }
	return run(ctx, listen, path+VerbsSuffix, mode, cfg, ready)
}

// serveListener implements ServeListener, for a listener at path.
func serveListener(ctx context.Context, l *net.UnixListener, path string, cfg Config, ready func()) error {
	listen := func(e *engine.Engine) (*server.Listener, error) { return server.Use(e, l) }
	return run(ctx, listen, path+VerbsSuffix, 0o600, cfg, ready)
}

// run runs an engine and serves the clients that connect to the socket that listen returns.
func run(ctx context.Context, listen func(*engine.Engine) (*server.Listener, error), dir string,
	mode fs.FileMode, cfg Config, ready func()) error {
	ec, err := cfg.engine()
	if err != nil {
		return err
	}
	e, err := engine.New(ec)
	if err != nil {
		return err
	}
	// Clients stay connected until the engine has ended their queues in an orderly way,
	// because a client loses its queues when it is disconnected.
	running, stop := context.WithCancel(ctx)
	defer stop()
	serving, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()

	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		err := e.Run(running, func() { close(started) })
		disconnect()
		ended <- err
	}()
	select {
	case <-started:
	case err := <-ended:
		return err
	}
	table, err := cfg.openLinks(ctx, e)
	if err == nil {
		var l *server.Listener
		if l, err = listen(e); err == nil {
			err = serve(serving, disconnect, e, l, table, dir, mode, cfg, ready)
		}
	}
	stop()
	err = errors.Join(err, <-ended)
	if table != nil {
		err = errors.Join(err, table.Close())
	}
	if cfg.Log != nil {
		s := e.Stats()
		cfg.Log.Info("engine stopped", "wqes", s.WQEs, "failed", s.Failed, "bytes", s.Bytes)
	}
	e.FlushLog(flushTime)
	return err
}

// serve serves clients and, if cfg.VerbsDevices is not 0, programs that use rdma-core. It
// ends when ctx ends or one of the two servers fails.
func serve(ctx context.Context, end func(), e *engine.Engine, l *server.Listener, table *links.Table,
	dir string, mode fs.FileMode, cfg Config, ready func()) error {
	path := strings.TrimSuffix(dir, VerbsSuffix)
	closeLinks, err := table.Serve(path+LinksSuffix, mode)
	if err != nil {
		return err
	}
	defer closeLinks()
	closeState, err := server.ServeFabricState(e, table.Survey, path+state.Suffix, mode)
	if err != nil {
		return err
	}
	closeReports := func() { closeLinks(); closeState() }
	defer closeReports()
	// The socket of reports goes before the listener gives the path to another engine.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		closeReports()
		endServing()
	})()
	defer endServing()
	if cfg.VerbsDevices == 0 {
		if ready != nil {
			ready()
		}
		return l.Serve(serving)
	}
	var layers []verbs.Link
	for _, l := range cfg.VerbsLinks {
		layers = append(layers, verbs.Link(l))
	}
	failed := make(chan error, 1)
	go func() {
		defer end()
		failed <- verbs.Serve(ctx, dir, e, verbs.Config{Devices: cfg.VerbsDevices, Links: layers, Mode: mode,
			Log: cfg.Log, Fabric: table, NoDEVX: cfg.NoVerbsDEVX, GuardPosts: cfg.VerbsGuardPosts}, ready)
	}()
	err = l.Serve(serving)
	end()
	return errors.Join(err, <-failed)
}

// ErrLink is wrapped in the error of an engine that cannot open one of Config.Links.
var ErrLink = errors.New("nicless: a link cannot be opened")

// openLinks opens the links to other engines.
func (c Config) openLinks(ctx context.Context, e *engine.Engine) (*links.Table, error) {
	list := c.Links
	if list == nil {
		list = []string{"none"}
		if c.VerbsDevices > 0 {
			list = []string{"auto"}
		}
	}
	o, err := links.Parse(list)
	if err != nil {
		return nil, fmt.Errorf("nicless: %w", err)
	}
	o.Users, err = links.ParseUsers(c.LinkUsers)
	if err != nil {
		return nil, fmt.Errorf("nicless: LinkUsers: %w", err)
	}
	disclosure, err := links.ParseDisclosure(c.Disclose)
	if err != nil {
		return nil, fmt.Errorf("nicless: Disclose: %w", err)
	}
	t, err := links.Open(ctx, nic.Of(e), o, c.Log)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLink, err)
	}
	t.SetSummary(disclosure, func() (*state.Summary, error) {
		clients := &state.Request{Kinds: []state.Kind{state.Clients}}
		return summary.Gather(func(give func(*state.Line) error) error {
			return e.State(uint32(os.Getuid()), clients, give)
		})
	})
	return t, nil
}

// engine returns the configuration of the device.
func (c Config) engine() (engine.Config, error) {
	for _, f := range []struct {
		name string
		v    int
	}{
		{"Limits.Regions", c.Limits.Regions}, {"Limits.PDs", c.Limits.PDs}, {"Limits.MRs", c.Limits.MRs}, {"Limits.CQs", c.Limits.CQs},
		{"Limits.QPs", c.Limits.QPs}, {"Limits.Channels", c.Limits.Channels}, {"VerbsDevices", c.VerbsDevices},
	} {
		if f.v < 0 {
			return engine.Config{}, fmt.Errorf("nicless: %s %d; 0 (the default) and more are possible", f.name, f.v)
		}
	}
	ec := engine.Config{CPUs: c.CPUs, Cores: c.Cores, Stay: c.Stay, DMACores: c.DMACores,
		Populate: c.Populate, PostersStep: c.PostersStep, DeviceNames: c.DeviceNames, GUID: c.GUID,
		Log: c.Log, Limits: c.Limits, Faults: c.Faults}
	switch {
	case c.Monitor:
		ec.Idle = engine.IdleMonitor
	case c.Spin:
		ec.Idle = engine.IdleSpin
	}
	return ec, nil
}

// open checks m and returns the memory, all of which is free. It returns nil if m is nil.
func (m *Memory) open() (*fileMemory, error) {
	if m == nil {
		return nil, nil
	}
	if m.File == nil {
		return nil, wrap("Memory", fmt.Errorf("no File"))
	}
	size, err := m.part()
	if err != nil {
		return nil, wrap("Memory", err)
	}
	raw, err := m.File.SyscallConn()
	if err != nil {
		return nil, wrap("Memory", err)
	}
	var fd int
	if closed := raw.Control(
		func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); closed != nil {
		return nil, wrap("Memory", closed)
	}
	if err != nil {
		return nil, wrap("Memory", err)
	}
	// A memfd that cannot be made shorter is better. Other files do not have seals.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	return &fileMemory{
		file: os.NewFile(uintptr(fd), m.File.Name()), offset: m.Offset, size: size,
		free: []span{{size: uint64(size)}}, used: make(map[uint32]span),
	}, nil
}

// registers returns memory for the UAR pages.
func (f *fileMemory) registers(size int) (r *shm.Region, err error) {
	r, f.uar, err = f.take(size)
	return r, err
}

// close closes the descriptor. The regions stay.
func (f *fileMemory) close() {
	if f != nil {
		_ = f.file.Close()
	}
}
