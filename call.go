package nicless

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
)

// Call runs f, which makes control calls, and returns f's results. If ctx ends before f
// returns, Call returns at once, with an error that wraps ctx.Err():
//
//	qp, err := nicless.Call(ctx, func() (*nicless.QP, error) { return pd.CreateQP(cfg) })
//	pd, err := nicless.Call(ctx, c.AllocPD)
//
// A control call sends a request to the engine and waits for the answer. Each method
// that makes, changes, queries or closes an object makes one or several control calls.
// Without Call, such a method waits until the engine answers. If an engine in another
// process has not answered after ten seconds, the method gives up the connection. Posting
// and polling make no control calls. Wait and NextEvent have a context parameter.
//
// An abandoned call continues on another goroutine. It reads its answer from the
// connection, so that the next call gets the right answer. Other calls of the same Context
// wait until the abandoned call has read its answer, unless they are abandoned too. If f
// then returns an object that has a method Close, the object is closed. Changes are not
// undone: after an abandoned Modify, Connect, Resize or Reregister, the object may only be
// closed. Its Close waits for the abandoned call.
//
// If ctx has ended already, f is not called. A panic of f becomes a panic of Call.
func Call[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, abandoned(ctx)
	}
	if ctx.Done() == nil {
		return f()
	}
	c := &calling[T]{done: make(chan struct{})}
	go c.run(f)
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.settled.CompareAndSwap(false, true) {
			var none T
			return none, abandoned(ctx)
		}
		<-c.done // f ended first
	}
	switch {
	case c.panicked != nil:
		panic(c.panicked)
	case !c.returned:
		runtime.Goexit() // as f did
	}
	return c.v, c.err
}

// Do is Call for a function that returns only an error:
//
//	err := nicless.Do(ctx, qp.Close)
func Do(ctx context.Context, f func() error) error {
	_, err := Call(ctx, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// DialContext is Dial, but it gives up when ctx ends. The returned Context does not depend
// on ctx.
func DialContext(ctx context.Context, path string) (*Context, error) {
	return Call(ctx, func() (*Context, error) { return Dial(path) })
}

func abandoned(ctx context.Context) error { return fmt.Errorf("nicless: abandoned: %w", ctx.Err()) }

// A calling is a call that can be abandoned.
type calling[T any] struct {
	settled atomic.Bool   // set by the first of two events: f ends, or the caller leaves
	done    chan struct{} // closed when f ends while the caller still waits

	v        T
	err      error
	returned bool // f returned: it has neither panicked nor called runtime.Goexit
	panicked any
}

func (c *calling[T]) run(f func() (T, error)) {
	defer func() {
		if !c.returned {
			c.panicked = recover()
		}
		switch {
		case c.settled.CompareAndSwap(false, true):
			close(c.done)
		case c.panicked != nil:
			panic(c.panicked)
		case c.returned && c.err == nil:
			if made, ok := any(c.v).(io.Closer); ok {
				_ = made.Close()
			}
		}
	}()
	c.v, c.err = f()
	c.returned = true
}
