package nicless

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/control"
)

// A Channel reports completions of any number of completion queues. A wait on a channel
// ends when one of its armed queues gets a completion.
type Channel struct {
	ctx    *Context
	id     uint32
	file   *os.File
	closed atomic.Bool

	mu   sync.Mutex
	cqs  map[uint64]*CQ // queues that use the channel, by the handle that events carry
	last uint64         // the handle that was given last
}

// CreateChannel makes a completion channel. Any number of completion queues can use it
// as their CQConfig.Channel.
func (c *Context) CreateChannel() (*Channel, error) {
	var ans control.Channel
	r, err := c.call("channel", control.OpCreateChannel, &control.Empty{}, &ans)
	if err != nil {
		return nil, err
	}
	ch := &Channel{ctx: c, id: ans.ID, file: r.Events, cqs: make(map[uint64]*CQ)}
	c.mu.Lock()
	c.channels[ch.file] = struct{}{}
	c.mu.Unlock()
	return ch, nil
}

// String returns, for instance, "channel 1".
func (ch *Channel) String() string { return fmt.Sprintf("channel %d", ch.id) }

// add gives q a handle.
func (ch *Channel) add(q *CQ) (handle uint64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.last++
	ch.cqs[ch.last] = q
	return ch.last
}

func (ch *Channel) remove(handle uint64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.cqs, handle)
}

// Wait waits for the next event and returns its queue. For another event, that queue must
// be armed again and then polled until it is empty: see CQ.Arm. The error is ErrDeviceGone
// when the device is gone, and ctx.Err() when ctx ends.
//
// Only one goroutine at a time may call Wait or Poll.
func (ch *Channel) Wait(ctx context.Context) (*CQ, error) {
	if err := ch.usable(); err != nil {
		return nil, err
	}
	defer ch.until(ctx)()
	for {
		q, err := ch.next(ctx)
		if q != nil || err != nil {
			return q, err
		}
	}
}

// Poll is Wait without waiting, for use with Fd. It returns nil when no queue has an
// event.
func (ch *Channel) Poll() (*CQ, error) {
	if err := ch.usable(); err != nil {
		return nil, err
	}
	raw, err := ch.file.SyscallConn()
	if err != nil {
		return nil, ch.ended()
	}
	for {
		var event [8]byte
		n := 0
		var failed error
		if ch.ctx.driver == nil {
			_ = ch.file.SetReadDeadline(time.Time{})
		}
		if err := raw.Read(func(fd uintptr) bool {
			n, failed = readFD(int(fd), event[:])
			return true
		}); err != nil {
			return nil, ch.ended()
		}
		switch {
		case errors.Is(failed, syscall.EAGAIN) && !ch.ctx.gone.Load():
			return nil, nil
		case errors.Is(failed, syscall.EINTR):
			continue
		case n != len(event):
			return nil, ch.ended()
		}
		if q := ch.take(event); q != nil {
			return q, nil
		}
	}
}

// Fd returns a file descriptor for poll and epoll, or -1 after Close. It is readable when
// a queue has an event: then call Poll. The caller must neither read nor close the
// descriptor. After Fd was called, the garbage collector does not close the Context.
func (ch *Channel) Fd() int {
	fd := -1
	if raw, err := ch.file.SyscallConn(); err == nil {
		_ = raw.Control(func(f uintptr) { fd = int(f) })
		ch.ctx.hold()
	}
	return fd
}

func (ch *Channel) usable() error {
	if ch.ctx == nil {
		return errZero
	}
	if ch.closed.Load() || ch.ctx.closed.Load() {
		return ErrClosed
	}
	return nil
}

// ended returns why no more events come: either this side has closed its end, or the
// engine has closed the other end.
func (ch *Channel) ended() error {
	if err := ch.usable(); err != nil {
		return err
	}
	ch.ctx.gone.Store(true) // the control socket may notice a moment later
	ch.ctx.end()
	return ErrDeviceGone
}

// until makes reads end when ctx ends. The caller calls stop after its last read.
func (ch *Channel) until(ctx context.Context) (stop func()) {
	if ch.ctx.driver != nil {
		return func() {} // next does not block in a read
	}
	_ = ch.file.SetReadDeadline(time.Time{})
	if ch.ctx.gone.Load() { // loaded after the deadline was cleared: see client.expireWaits
		_ = ch.file.SetReadDeadline(time.Now().Add(eventGrace))
	}
	woken := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		_ = ch.file.SetReadDeadline(time.Unix(1, 0)) // ends a read that is under way
		close(woken)
	})
	return func() {
		if !end() {
			<-woken // if the deadline were set later, it could end the next call's read
		}
	}
}

// next reads one event. The caller has called until before. next returns nil for an event
// of a queue that was closed.
func (ch *Channel) next(ctx context.Context) (*CQ, error) {
	if d := ch.ctx.driver; d != nil {
		return d.next(ctx, ch)
	}
	var event [8]byte
	n, _ := ch.file.Read(event[:])
	switch {
	case n == len(event):
		return ch.take(event), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, ch.ended()
}

// take notes an event in its queue and returns the queue, or nil if the queue was closed.
func (ch *Channel) take(event [8]byte) *CQ {
	v := binary.LittleEndian.Uint64(event[:])
	ch.mu.Lock()
	q := ch.cqs[v&^control.ChannelOverrun]
	ch.mu.Unlock()
	switch {
	case q == nil:
		return nil
	case v&control.ChannelOverrun != 0:
		q.overrun.Store(true)
	default:
		q.cq.EventSeen()
		q.armed.Store(false)
	}
	return q
}

// Close destroys the channel. It returns ErrBusy while completion queues use the channel.
// No goroutine may wait on the channel during Close. A second Close does nothing.
func (ch *Channel) Close() error {
	if ch == nil || ch.ctx == nil {
		return errZero
	}
	return closing(ch.ctx, &ch.closed, func() error {
		if _, err := ch.ctx.call("close channel", control.OpDestroyChannel, &control.Channel{ID: ch.id},
			&control.Empty{}); err != nil {
			return err
		}
		ch.ctx.mu.Lock()
		delete(ch.ctx.channels, ch.file)
		ch.ctx.mu.Unlock()
		return ch.file.Close()
	})
}
