package accel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// A Stream executes kernels and copies one after another, in parallel with the host and
// with other streams. When a kernel or copy fails, the stream is in error: it skips all
// later kernels and copies, and Sync returns the error. The methods of a Stream are safe for
// concurrent use.
type Stream struct {
	dev *Device

	mu     sync.Mutex
	queue  []func() error
	more   *sync.Cond // signaled when queue or ending changes
	ending bool
	err    error // the first error
}

// NewStream makes a stream. It ends with the device, or with Close.
func (d *Device) NewStream() (*Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed == nil || d.closing.Load() {
		return nil, ErrClosed
	}
	s := &Stream{dev: d}
	s.more = sync.NewCond(&s.mu)
	d.streams[s] = struct{}{}
	d.all.Go(s.run)
	return s, nil
}

var errNoStream = errors.New("accel: no stream: take what Device.NewStream returns")

func (s *Stream) run() {
	defer func() {
		s.dev.mu.Lock()
		delete(s.dev.streams, s)
		s.dev.mu.Unlock()
	}()
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.ending {
			s.more.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		if err := f(); err != nil {
			s.fail(err)
		}
	}
}

// add queues f.
func (s *Stream) add(f func() error) error {
	if s == nil || s.dev == nil {
		return errNoStream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case s.ending:
		return ErrClosed
	}
	s.queue = append(s.queue, f)
	s.more.Signal()
	return nil
}

func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Err returns why the stream is in error, or nil.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Launch queues a kernel for a grid of lanes. It returns an error at once if the grid is
// impossible, or if the stream is in error or closed. Errors of the kernel are returned by
// Sync: a *KernelError if the kernel panicked, tried to post a request that cannot be
// posted, or deadlocked, and ErrClosed if the device was closed while the kernel ran.
func (s *Stream) Launch(size Grid, k Kernel) error {
	if err := size.check(); err != nil {
		return err
	}
	if k == nil {
		return fmt.Errorf("accel: no kernel (nil)")
	}
	return s.add(func() error {
		if err := s.Err(); err != nil {
			return err
		}
		g := newGrid(size, k)
		s.dev.start(g)
		<-g.done
		return g.err()
	})
}

// CopyIn queues a copy of src to the buffer, beginning at offset off. src must not be
// changed before the copy is done.
func (s *Stream) CopyIn(dst *Buffer, off int, src []byte) error {
	if err := dst.holds(off, len(src)); err != nil {
		return err
	}
	return s.copy(dst, dst.mem[off:off+len(src)], src)
}

// CopyOut queues a copy from the buffer, beginning at offset off, to dst.
func (s *Stream) CopyOut(dst []byte, src *Buffer, off int) error {
	if err := src.holds(off, len(dst)); err != nil {
		return err
	}
	return s.copy(src, dst, src.mem[off:off+len(dst)])
}

// copy queues a copy between the memory of b and other memory.
func (s *Stream) copy(b *Buffer, dst, src []byte) error {
	return s.add(func() error {
		if err := s.Err(); err != nil {
			return err
		}
		copy(dst, src)
		runtime.KeepAlive(b)
		return nil
	})
}

func (b *Buffer) holds(off, n int) error {
	if off < 0 || off > len(b.mem) || n > len(b.mem)-off {
		return fmt.Errorf("accel: %d bytes at offset %d; the buffer has %d", n, off, len(b.mem))
	}
	return nil
}

// An Event is a point in a stream.
type Event struct {
	done chan struct{}
	err  error // the stream's error at the event; readable once done is closed
}

// Record returns an event for the point after all kernels and copies added so far.
func (s *Stream) Record() (*Event, error) {
	e := &Event{done: make(chan struct{})}
	err := s.add(func() error {
		e.err = s.Err()
		close(e.done)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

var errNoEvent = errors.New("accel: no event: take what Stream.Record returns")

// Done returns a channel that is closed when the stream has reached the event.
func (e *Event) Done() <-chan struct{} { return e.done }

// Wait waits until the stream has reached the event, and returns the error that the stream
// had at the event, or nil. If ctx ends first, it returns ctx.Err().
func (e *Event) Wait(ctx context.Context) error {
	if e == nil || e.done == nil {
		return errNoEvent
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitFor makes kernels and copies that are added to this stream from now on wait for an
// event. The event may be of another stream and of another device.
func (s *Stream) WaitFor(e *Event) error {
	if e == nil || e.done == nil {
		return errNoEvent
	}
	return s.add(func() error {
		select {
		case <-e.done:
		case <-s.dev.closed:
			return ErrClosed
		}
		if e.err != nil {
			return fmt.Errorf("accel: the stream that was waited for: %w", e.err)
		}
		return nil
	})
}

// Sync waits until all kernels and copies added so far are done, and returns the stream's
// error, or nil.
func (s *Stream) Sync() error {
	e, err := s.Record()
	if err != nil {
		return err
	}
	return e.Wait(context.Background())
}

// Close ends the stream when all kernels and copies that were added are done.
func (s *Stream) Close() error {
	s.end()
	return nil
}

func (s *Stream) end() {
	if s == nil || s.dev == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.more.Broadcast()
}
