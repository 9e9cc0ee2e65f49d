//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
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
	if d.table, err = cfg.openLinks(context.Background(), d.engine); err != nil {
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
	if d.client, err = nic.Of(e).AttachLocal("embedded", registers); err != nil {
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
	if id, ok := req.(*control.RegionID); ok && op == control.OpDropRegion && d.file != nil {
		d.file.drop(id.ID)
	}
	return r, control.Parse(op, control.Append(nil, op, control.FlagAnswer, 0, m)[control.HeaderSize:], ans)
}

// NewRegion makes memory that client and device use through one mapping. If the race
// detector is on, the memory is on the heap, where the race detector can follow accesses.
func (d *embedded) NewRegion(name string, size int) (mem *shm.Region, id uint32, err error) {
	if d.file != nil {
		return d.newRegionInFile(size)
	}
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
	})
	return err
}
