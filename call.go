package nicless

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
)

// Call runs f, which makes control calls, and returns what f returns. If ctx ends
// before, Call returns at once, with an error that wraps that of ctx:
//
//	qp, err := nicless.Call(ctx, func() (*nicless.QP, error) { return pd.CreateQP(cfg) })
//	pd, err := nicless.Call(ctx, c.AllocPD)
//
// A control call is a request to the engine that waits for the answer: each method
// that makes, changes, queries or closes an object is one, or several. Without Call
// it waits for as long as the engine takes, and gives the connection up after ten
// seconds. Posting and polling make no control calls, and Wait and NextEvent take a
// context of their own.
//
// A call that is abandoned goes on on a goroutine of its own, takes its answer off
// the connection, so that the next call gets the right one, and then closes what
// was made, if that has a Close. Other calls of the same Context wait for that,
// unless they are abandoned too. What a call changes is not undone: an object whose
// Modify, Connect, Resize or Reregister was abandoned must not be used, but to
// close it, which waits for that call.
//
// f is not called at all if ctx has ended before. A panic of f is the caller's.
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
		<-c.done // it came first
	}
	switch {
	case c.panicked != nil:
		panic(c.panicked)
	case !c.returned:
		runtime.Goexit() // as f has done
	}
	return c.v, c.err
}

// Do is Call of what returns an error only:
//
//	err := nicless.Do(ctx, qp.Close)
func Do(ctx context.Context, f func() error) error {
	_, err := Call(ctx, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// DialContext is Dial that is given up when ctx ends. The Context that it returns
// does not depend on ctx.
func DialContext(ctx context.Context, path string) (*Context, error) {
	return Call(ctx, func() (*Context, error) { return Dial(path) })
}

func abandoned(ctx context.Context) error { return fmt.Errorf("nicless: abandoned: %w", ctx.Err()) }

// A calling is a call that can be abandoned.
type calling[T any] struct {
	settled atomic.Bool   // by the first of the two: f has ended, the caller has left
	done    chan struct{} // closed when f has ended and the caller is there

	v        T
	err      error
	returned bool // f has: it has neither panicked nor called runtime.Goexit
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
