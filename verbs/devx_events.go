//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Events of contexts with firmware commands (devx.c of the kernel's mlx5 driver). A program makes an event
// channel, a descriptor, and subscribes it, or an eventfd, to events of an object or of the device.
// Objects that firmware commands have made have no other events; those of the verbs have their
// asynchronous events as well.

// A subscription is one event of one object that a program wants to be told.
type subscription struct {
	object  *object // nil: of the device
	to      *feed
	cookie  uint64
	eventfd *eventfd // in place of a datagram; nil if there is none

	// Of a channel without entries, guarded by its feed: the number of the last datagram in the feed, whether
	// that one still waits for room, and whether the subscription has ended.
	place          uint64
	waits, dropped bool

	signals atomic.Int64 // to be added to the eventfd
}

// An eventfd is a program's descriptor that counts the events of the subscriptions of one call.
type eventfd struct {
	file  nic.File
	users int // subscriptions
}

// An occasion is what one subscribes to: a type of event, of the object with a key (numberOf), or of the
// device (0).
type occasion struct {
	key  uint64
	kind uint16
}

// eventTable has the subscriptions of a context. Its lock is not held while an event is sent.
type eventTable struct {
	mu            sync.Mutex
	channels      []*feed
	commands      []*feed                      // for answers to queries
	subscriptions map[occasion][]*subscription // a list grows, or is replaced
	count         int                          // subscriptions, and events of ended ones that wait for room
	files         *os.File                     // the engine's channel of CQs of CREATE_CQ; nil until needed
	channel       uint32                       // number of that channel
	handles       map[uint64]uint64            // keys of these queues, by the handle that the engine repeats
	last          uint64                       // the handle given last
}

// subscriptionCost is what a subscription costs its user, with a datagram that waits. One with an eventfd
// holds a descriptor too.
var (
	subscriptionCost = nic.Cost{Memory: 512}
	eventfdCost      = nic.Cost{Memory: 512, Descriptors: 1}
)

const (
	// maxEventChannels is the most event channels, and as many descriptors for answers, that a context may
	// have. Libraries make two for each of their interfaces.
	maxEventChannels = 256

	// maxSubscriptions is the most subscriptions of a context: one for each of the 7 types of events of each
	// of its 9216 queues, 32 MiB of the user's memory. All may be to one event, as in the kernel. Each is a
	// send, some microseconds, before the next event of this context is passed on. Other contexts, and the
	// engine, do not wait for it.
	maxSubscriptions = 1 << 16

	// maxEventNumbers is the most event numbers of one call (MAX_NUM_EVENTS of the kernel's driver).
	maxEventNumbers = 16
)

// Types of events (MLX5_EVENT_TYPE_*), and the offset of the number of the object in an event queue entry.
const (
	eventCompletion  = 0x00
	eventEstablished = 0x02
	eventDrained     = 0x03
	eventCQError     = 0x04
	eventQPFatal     = 0x05
	eventPortChange  = 0x09
	eventInvalid     = 0x10
	eventAccess      = 0x11
	eventSRQError    = 0x12
	eventLastWQE     = 0x13
	eventSRQLimit    = 0x14

	eqeSize       = 64
	eqeType       = 0x01
	eqeSubType    = 0x03
	eqeCQ         = 0x20 // of an error of a CQ
	eqeSyndrome   = 0x2b
	eqePort       = 0x28
	eqeNumber     = 0x38 // of all other objects
	overrunReason = 1
)

// portSubTypes has the subtypes of eventPortChange. A RoCE port has GIDs of which the device does not tell.
var portSubTypes = map[control.EventKind]byte{
	control.EventPortError: 1, control.EventPortActive: 4, control.EventLIDChange: 6,
	control.EventPKeyChange: 7, control.EventReregister: 9,
}

func eventMethods() []*method {
	const channel, commands = abi.MLX5ObjectDEVXAsyncEventFD, abi.MLX5ObjectDEVXAsyncCmdFD
	return []*method{
		{channel, abi.MLX5MethodDEVXAsyncEventFDAlloc, "MLX5_DEVX_ASYNC_EVENT_FD.ALLOC", []field{
			{id: abi.MLX5AttrDEVXAsyncEventFDAllocHandle, name: "descriptor", shape: newFD},
			{id: abi.MLX5AttrDEVXAsyncEventFDAllocFlags, name: "flags", shape: flagBits},
		}, inDEVX(channel, abi.MLX5MethodDEVXAsyncEventFDAlloc, allocEventChannel)},
		{commands, abi.MLX5MethodDEVXAsyncCmdFDAlloc, "MLX5_DEVX_ASYNC_CMD_FD.ALLOC", []field{
			{id: abi.MLX5AttrDEVXAsyncCmdFDAllocHandle, name: "descriptor", shape: newFD},
		}, inDEVX(commands, abi.MLX5MethodDEVXAsyncCmdFDAlloc, allocCommandChannel)},
		{abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXSubscribeEvent, "MLX5_DEVX.SUBSCRIBE_EVENT", []field{
			{id: abi.MLX5AttrDEVXSubscribeEventFDHandle, name: "channel", shape: fd},
			{id: abi.MLX5AttrDEVXSubscribeEventObjHandle, name: "object", shape: handle, kind: kindAny, optional: true},
			{id: abi.MLX5AttrDEVXSubscribeEventTypeNumList, name: "events", shape: in, min: 2},
			{id: abi.MLX5AttrDEVXSubscribeEventFDNum, name: "eventfd", shape: in, min: 4, max: 4, optional: true},
			{id: abi.MLX5AttrDEVXSubscribeEventCookie, name: "cookie", shape: in, min: 8, max: 8, optional: true},
		}, inDEVX(abi.MLX5ObjectDEVX, abi.MLX5MethodDEVXSubscribeEvent, subscribeEvent)},
	}
}

// allocEventChannel serves MLX5_DEVX_ASYNC_EVENT_FD.ALLOC.
func allocEventChannel(c *call) error {
	flags := c.value(abi.MLX5AttrDEVXAsyncEventFDAllocFlags)
	if flags&^1 != 0 {
		return refuse(eINVAL, "event channel: flags %#x; 1 (without data) is known", flags)
	}
	f := &feed{omit: flags == 1}
	if !f.omit {
		f.most = mostWaiting
	}
	x := c.x
	f.gone = func(n int) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.subs.mu.Lock()
		defer x.subs.mu.Unlock()
		if !x.ended {
			x.refundOutlived(n)
		}
	}
	return c.newChannel(&c.x.subs.channels, abi.MLX5AttrDEVXAsyncEventFDAllocHandle, f)
}

// allocCommandChannel serves MLX5_DEVX_ASYNC_CMD_FD.ALLOC.
func allocCommandChannel(c *call) error {
	return c.newChannel(&c.x.subs.commands, abi.MLX5AttrDEVXAsyncCmdFDAllocHandle, new(feed))
}

// newChannel makes a feed, adds it to a list of the context, and answers with its descriptor. Of a feed
// with entries, most may wait; one for answers has no room but the socket, and refuses a query then.
func (c *call) newChannel(list *[]*feed, id uint16, f *feed) error {
	x := c.x
	if len(*list) >= maxEventChannels {
		x.endClosedFeeds()
	}
	if len(*list) >= maxEventChannels {
		return refuse(eNOMEM, "this context has %d event channels, which is its limit", maxEventChannels)
	}
	if err := x.charge(f.cost()); err != nil {
		return err
	}
	theirs, err := newFeed(f)
	if err != nil {
		x.refund(f.cost())
		return err
	}
	x.subs.mu.Lock()
	*list = append(*list, f)
	x.subs.mu.Unlock()
	go x.awaitEnd(f)
	c.putFile(id, theirs)
	return nil
}

// dropSubscriptions removes the subscriptions to an event for which f is true. The table's lock is held.
func (x *uctx) dropSubscriptions(o occasion, f func(*subscription) bool) {
	t := &x.subs
	var rest []*subscription
	for _, s := range t.subscriptions[o] {
		if !f(s) {
			rest = append(rest, s)
			continue
		}
		if s.to.omit && s.to.drop(s) {
			s.object = nil // so that the event keeps no queue
			continue       // refundOutlived refunds it
		}
		t.count--
		x.refund(s.cost())
		if s.eventfd != nil {
			s.eventfd.users--
			if s.eventfd.users == 0 {
				_ = s.eventfd.file.Close()
			}
		}
	}
	t.subscriptions[o] = rest
	if len(rest) == 0 {
		delete(t.subscriptions, o)
	}
}

// refundOutlived refunds n subscriptions that have ended and whose events wait no longer. The table's lock
// is held.
func (x *uctx) refundOutlived(n int) {
	x.subs.count -= n
	for range n {
		x.refund(subscriptionCost)
	}
}

// unsubscribe removes the subscriptions to an object that is destroyed. Events of
// them that the program has not read stay, as in the kernel, and those that wait for room are charged.
func (x *uctx) unsubscribe(o *object) {
	t := &x.subs
	t.mu.Lock()
	defer t.mu.Unlock()
	if key := eventKey(o); key != 0 && t.count > 0 {
		for _, kind := range objectEvents {
			x.dropSubscriptions(occasion{key, kind}, func(s *subscription) bool { return s.object == o })
		}
	}
}

func (s *subscription) cost() nic.Cost {
	if s.eventfd != nil {
		return eventfdCost
	}
	return subscriptionCost
}

// objectEvents are the types of events of objects. As the kernel does, the device lets a program subscribe
// to all of them with any object. Those of migration, of DCTs and of XRQs never come here.
var objectEvents = []uint16{eventCompletion, eventEstablished, eventDrained, eventCQError, eventInvalid,
	eventAccess, eventLastWQE, eventSRQLimit, eventQPFatal, eventSRQError, 0x01, 0x07, 0x18, 0x1c, 0x1d}

// eventKey returns the key of an object, 0 if the object has no events.
func eventKey(o *object) uint64 {
	switch q := o.self.(type) {
	case *cq:
		return numberOf(kindCQ, q.number)
	case *qp:
		return numberOf(kindQP, q.number)
	case *srq:
		return numberOf(kindSRQ, q.number)
	}
	return 0
}

// subscribeEvent serves MLX5_DEVX.SUBSCRIBE_EVENT.
func subscribeEvent(c *call) error {
	x := c.x
	f, err := c.file(abi.MLX5AttrDEVXSubscribeEventFDHandle)
	if err != nil && err != errAgain {
		return err
	}
	file, other := c.eventfd()
	if other != nil && other != errAgain {
		return other
	}
	if err != nil || other != nil {
		return errAgain
	}
	cookie, err := cookieOf(f)
	to := x.channelOf(x.subs.channels, cookie)
	if err != nil || to == nil {
		return refuse(eBADF, "subscribe: the descriptor is no event channel of this context")
	}
	if file != nil && c.find(abi.MLX5AttrDEVXSubscribeEventCookie) != nil {
		return refuse(eINVAL, "subscribe: a cookie and an eventfd; an eventfd has no room for a cookie")
	}
	var key uint64
	o := x.objects[uint32(c.handleIn(abi.MLX5AttrDEVXSubscribeEventObjHandle))]
	possible := []uint16{eventPortChange}
	if o != nil {
		key, possible = eventKey(o), objectEvents
		if key == 0 {
			return refuse(eINVAL, "subscribe: a %v has no events", o.kind)
		}
	}
	list := c.bytes(abi.MLX5AttrDEVXSubscribeEventTypeNumList)
	if len(list)%2 != 0 || len(list) > 2*maxEventNumbers {
		return refuse(eINVAL, "subscribe: %d bytes of event numbers; each has 2, and %d are possible", len(list), maxEventNumbers)
	}
	var on []occasion
	for ; len(list) > 0; list = list[2:] {
		kind := le.Uint16(list)
		switch {
		case !slices.Contains(possible, kind):
			return refuse(eINVAL, "subscribe: event %#x; %#x are possible here", kind, possible)
		case kind == eventCompletion && o.kind == kindCQ:
			return refuse(eINVAL, "subscribe: completion events of CQ %d, which is of the verbs: they come by its completion channel", o.handle)
		}
		on = append(on, occasion{key, kind})
	}
	err = c.subscribe(on, o, to, file)
	if err != nil && refusalOf(err).errno == eNOMEM && x.endClosedFeeds() {
		err = c.subscribe(on, o, to, file)
	}
	return err
}

// subscribe adds a subscription for each event, all or none.
func (c *call) subscribe(on []occasion, o *object, to *feed, file nic.File) error {
	x, t := c.x, &c.x.subs
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count+len(on) > maxSubscriptions {
		return refuse(eNOMEM, "subscribe: this context has %d subscriptions, with ended ones whose events wait to be read; %d are possible", t.count, maxSubscriptions)
	}
	var shared *eventfd
	if file != nil {
		shared = &eventfd{file: file, users: len(on)}
	}
	s := subscription{eventfd: shared}
	for i := range on {
		if err := x.charge(s.cost()); err != nil {
			for range i {
				x.refund(s.cost())
			}
			return err
		}
	}
	if file != nil {
		c.keep(file)
	}
	for _, one := range on {
		t.subscriptions[one] = append(t.subscriptions[one], &subscription{object: o, to: to,
			cookie: c.value(abi.MLX5AttrDEVXSubscribeEventCookie), eventfd: shared})
		t.count++
	}
	return nil
}

// handleIn returns the handle that an attribute names, 0 if there is none.
func (c *call) handleIn(id uint16) uint64 {
	if a := c.find(id); a != nil {
		return a.data
	}
	return 0
}

// channelOf returns the channel of a list whose descriptor has a cookie, nil if there is none.
func (x *uctx) channelOf(list []*feed, cookie uint64) *feed {
	for _, ch := range list {
		if ch.cookie == cookie {
			return ch
		}
	}
	return nil
}

// eventfd returns the program's eventfd in a subscription, nil if there is none. Another kind of file
// could keep the server waiting.
func (c *call) eventfd() (nic.File, error) {
	if c.find(abi.MLX5AttrDEVXSubscribeEventFDNum) == nil {
		return nil, nil
	}
	number := int32(c.value32(abi.MLX5AttrDEVXSubscribeEventFDNum))
	f, err := c.fileNumber(number)
	if err != nil {
		return nil, err
	}
	kind := ""
	_ = unixsock.Control(f, func(fd int) error {
		kind, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return err
	})
	if kind != "anon_inode:[eventfd]" {
		return nil, refuse(eINVAL, "subscribe: descriptor %d is no eventfd", number)
	}
	return f, nil
}
