//go:build linux && (amd64 || arm64)

package engines

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A claim is the devices of a container, and their engine.
type claim struct {
	p   *Pool
	ids []int // in order

	broken bool // guarded by p.mu: the engine has ended by itself and does not serve again yet

	mu      sync.Mutex // held while the engine is started or ended
	former  []*claim   // have had these devices; their engines end first
	ended   bool       // another claim has the devices, or the pool is closed
	stop    context.CancelFunc
	stopped chan struct{} // closed when the engine has ended for good; nil: none was started
}

func (c *claim) lead() int { return c.ids[0] }

// prepare ends the former engines and makes an empty directory.
func (c *claim) prepare() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renew()
}

// start makes a new engine and waits until it serves.
func (c *claim) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.renew(); err != nil {
		return err
	}
	return c.launch(ctx)
}

// resume starts an engine in the directory that a container may have mounted, without waiting for it.
func (c *claim) resume() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.p.cfg.clean(c.lead()); err != nil {
		return err
	}
	c.run(func(error) {})
	return nil
}

// renew ends all engines of these devices, and makes an empty directory. The caller has locked c.mu.
func (c *claim) renew() error {
	if c.ended {
		return fmt.Errorf("devices %v: another container has got them meanwhile, or the plugin ends", c.ids)
	}
	for len(c.former) > 0 {
		if err := c.former[0].end(); err != nil {
			return err
		}
		c.former = c.former[1:]
	}
	if err := c.halt(); err != nil {
		return err
	}
	return c.p.cfg.fresh(c.lead())
}

// launch starts the engine and waits until it serves. If it does not, it is not tried again before the
// kubelet asks again. The caller has locked c.mu.
func (c *claim) launch(ctx context.Context) error {
	first := make(chan error, 1)
	var once sync.Once
	c.run(func(err error) { once.Do(func() { first <- err }) })
	var err error
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the engine of devices %v did not start: %w", c.ids, err), c.halt())
	}
	return nil
}

// run keeps an engine running until halt. each is called whenever one serves, or could not be started.
func (c *claim) run(each func(error)) {
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.stopped = stop, make(chan struct{})
	go c.keep(ctx, c.stopped, each)
}

// end ends the engine for good: other containers get the devices.
func (c *claim) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, f := range c.former {
		if err := f.end(); err != nil {
			return err
		}
	}
	c.former = nil
	return c.halt()
}

// halt ends the engine. The caller has locked c.mu.
func (c *claim) halt() error {
	if c.stopped == nil {
		return nil
	}
	c.stop()
	late := time.NewTimer(endTime)
	defer late.Stop()
	select {
	case <-c.stopped:
		c.stopped = nil
		c.health(true)
		return nil
	case <-late.C:
		return fmt.Errorf("the engine of devices %v has not ended in %v", c.ids, endTime)
	}
}

// health notes whether the engine serves.
func (c *claim) health(serves bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.broken == !serves {
		return
	}
	c.broken = !serves
	if c.p.claims[c.lead()] == c {
		c.p.notify()
	}
}
