//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
)

// Completion events of CQs that CREATE_CQ has made. All these CQs of a context have one completion channel
// of the engine. A goroutine reads it and passes each event to the subscriptions of its CQ. A CQ that
// nobody has subscribed to costs nothing, because such a program does not arm it.

// devxChannel returns the number of that channel, which is made when it is first needed.
func (x *uctx) devxChannel() (id uint32, err error) {
	t := &x.subs
	if t.files != nil {
		return t.channel, nil
	}
	if err := x.charge(channelCost); err != nil {
		return 0, err
	}
	m, r, err := x.request(control.OpCreateChannel, &control.Empty{})
	if err != nil {
		x.refund(channelCost)
		return 0, err
	}
	t.channel, t.files = m.(*control.Channel).ID, r.Events
	go x.passCompletions()
	return t.channel, nil
}

// devxHandle returns a new handle by which the engine names a CQ in its events.
func (x *uctx) devxHandle() uint64 {
	x.subs.last++
	return x.subs.last
}

// nameHandle says which CQ has a handle, and dropHandle that none has it any more.
func (x *uctx) nameHandle(handle uint64, cqn uint32) {
	x.subs.mu.Lock()
	defer x.subs.mu.Unlock()
	x.subs.handles[handle] = numberOf(kindCQ, cqn)
}

func (x *uctx) dropHandle(handle uint64) {
	x.subs.mu.Lock()
	defer x.subs.mu.Unlock()
	delete(x.subs.handles, handle)
}

// passCompletions passes completion events on until the context ends.
func (x *uctx) passCompletions() {
	t := &x.subs
	var b [8]byte
	for {
		n, err := t.files.Read(b[:])
		if n != len(b) || err != nil {
			return
		}
		handle := le.Uint64(b[:])
		if handle&control.ChannelOverrun != 0 {
			continue // the event of the CQ's error tells it
		}
		t.mu.Lock()
		key := t.handles[handle]
		t.mu.Unlock()
		if key != 0 {
			x.publish(occasion{key, eventCompletion}, numberAt(eqeNumber, uint32(key)))
		}
	}
}

// endEvents closes the descriptors of the context's events.
func (x *uctx) endEvents() {
	t := &x.subs
	if t.files != nil {
		_ = t.files.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for o := range t.subscriptions {
		x.dropSubscriptions(o, func(*subscription) bool { return true })
	}
	for _, f := range append(t.channels, t.commands...) {
		_ = f.mine.Close()
	}
	t.channels, t.commands = nil, nil
}
