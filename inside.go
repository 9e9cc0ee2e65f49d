//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/inside"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

func init() { inside.Register(openInside) }

// A house is an engine in this process with any number of clients, for package niclesstest.
type house struct {
	engine *engine.Engine
	log    Config
	driver *driver // drives the engine; nil: a thread runs it
	cancel context.CancelFunc
	done   chan struct{} // closed when the engine has ended
	failed error         // the result of Run; readable once done is closed
	table  *links.Table
	once   sync.Once
}

// openInside implements inside.Open.
func openInside(config any, kind inside.Clock) (inside.Engine, error) {
	cfg := config.(Config)
	ec, err := cfg.engine()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(ec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &house{engine: e, log: cfg, cancel: cancel, done: make(chan struct{})}
	if kind == inside.Real {
		err = h.run(ctx)
	} else {
		h.driver, err = drive(e, kind == inside.Bubble)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	h.table, err = cfg.openLinks(ctx, e)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// drive returns a driver of e. It lets posters of this process join the barrier by which the driver finds
// all work that was announced before it slept.
func drive(e *engine.Engine, bubble bool) (*driver, error) {
	if err := shm.JoinBarrier(); err != nil {
		return nil, wrap("a device without a thread", err)
	}
	return newDriver(nic.Of(e).(nic.Stepper), bubble), nil
}

// run lets a thread run the engine.
func (h *house) run(ctx context.Context) error {
	started := make(chan struct{})
	go func() {
		defer close(h.done)
		h.failed = h.engine.Run(ctx, func() { close(started) })
	}()
	select {
	case <-started:
		return nil
	case <-h.done:
		return h.failed
	}
}

func (h *house) Sync() {
	if h.driver != nil {
		h.driver.stepAll()
		return
	}
	h.engine.Do(func() {}) // between two steps everything that was done is recorded
}

func (h *house) AfterSteps(f func()) {
	h.driver.mu.Lock()
	defer h.driver.mu.Unlock()
	h.driver.after = f
}

func (h *house) Advance(d time.Duration) { h.driver.advance(d) }

func (h *house) Close() (err error) {
	h.once.Do(func() {
		if h.table != nil {
			err = h.table.Close()
		}
		h.cancel()
		if h.driver != nil {
			h.driver.end()
			close(h.done)
		}
		<-h.done
		h.engine.FlushLog(flushTime)
	})
	return errors.Join(err, h.failed)
}

func (h *house) Attach(name string, l inside.Ledger) (inside.Client, error) {
	local, err := nic.Of(h.engine).AttachLocal(name, nil)
	if err != nil {
		return nil, err
	}
	mine := &embedded{engine: h.engine, client: local, done: h.done}
	g := &guest{embedded: mine, driver: h.driver, ledger: l}
	ctx, err := newContext(g, h.log.Log)
	if err != nil {
		return nil, err
	}
	g.ctx.Store(ctx)
	return g, nil
}

// A guest is a client of a house. It is a device of its own for its Context, whose requests it reports.
type guest struct {
	*embedded
	driver *driver
	ledger inside.Ledger
	ctx    atomic.Pointer[Context] // nil until the device has taken the client
	once   sync.Once
}

func (g *guest) Context() any { return g.ctx.Load() }

func (g *guest) Drain() { g.client.Drain() }

func (g *guest) drivenBy() *driver { return g.driver }

func (g *guest) Call(op control.Op, req, ans control.Message) (control.Reply, error) {
	if q, ok := req.(*control.QPN); ok && op == control.OpDestroyQP {
		g.client.Drain()
		g.dropping(func(qpn uint32, _ bool) bool { return qpn == q.QPN })
	}
	if g.driver != nil {
		g.driver.hold() // time may have passed since the last step
	}
	r, err := g.embedded.Call(op, req, ans)
	if refusal := (*control.Error)(nil); err != nil && !errors.As(err, &refusal) {
		err = g.killed()
	}
	if err == nil {
		g.ledger.Served(op, req, ans)
	}
	if g.driver != nil {
		g.driver.kick() // the request may have given the device work
	}
	return r, err
}

// killed notes that the device has ended the client, as the end of its process would. It returns the error
// that the client gets from now on.
func (g *guest) killed() error {
	g.ledger.Gone()
	if c := g.ctx.Load(); c != nil {
		c.gone.Store(true)
		c.end()
	}
	return ErrDeviceGone
}

func (g *guest) Alive() bool {
	var a control.QPAttr
	_, err := g.Call(control.OpQueryQP, &control.QPN{}, &a) // there is no such queue pair
	return !errors.Is(err, ErrDeviceGone)
}

// dropping reports the completions of some queue pairs that were not polled.
func (g *guest) dropping(of func(qpn uint32, exists bool) bool) {
	ctx := g.ctx.Load()
	if ctx == nil || ctx.gone.Load() { // the device has refused or ended the client
		return
	}
	c := ctx.client
	c.mu.Lock()
	var queues []*CQ
	for _, q := range c.cqs {
		if q := q.Value(); q != nil {
			queues = append(queues, q)
		}
	}
	exist := make(map[uint32]bool, len(c.qps))
	for n := range c.qps {
		exist[n] = true
	}
	c.mu.Unlock()
	for _, q := range queues {
		var list []hostpath.Unpolled
		for _, u := range q.cq.Unpolled() {
			if n := u.Tail.QPN(); of(n, exist[n]) {
				list = append(list, u)
			}
		}
		if len(list) > 0 {
			g.ledger.Dropped(q.cqn, list)
		}
	}
}

// Close ends the client. The engine goes on.
func (g *guest) Close() (err error) {
	g.once.Do(func() {
		g.client.Drain()
		g.dropping(func(_ uint32, exists bool) bool { return exists })
		err = errors.Join(g.client.Close(), g.unmapAllOwn())
		g.ledger.Gone()
	})
	return err
}
