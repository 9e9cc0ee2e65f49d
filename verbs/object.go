//go:build linux && (amd64 || arm64)

package verbs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/internal/nic"
)

// A kind is the type of an object.
type kind uint8

const (
	kindNone kind = iota
	kindPD
	kindMR
	kindMW
	kindCQ
	kindQP
	kindSRQ
	kindAH
	kindUAR
	kindDEVX // made by a firmware command
	kindDM
	kindXRCD
	kindUMEM
	kindTable // only in schemas: no such object can be made
	kindAny   // only in schemas: an object of any kind
)

var kindNames = [...]string{"nothing", "PD", "MR", "MW", "CQ", "QP", "SRQ", "AH", "UAR", "firmware object",
	"device memory", "XRC domain", "umem", "indirection table", "object"}

func (k kind) String() string { return kindNames[k] }

// Approximate costs of what this package keeps for programs. The engine charges its own part
// itself. The cost of a descriptor for asynchronous events (async) includes the unread events.
var (
	// Without the connection's own descriptor, which serve charges first.
	processCost = nic.Cost{Memory: 3*maxDatagram + 4096, Descriptors: 1, Connections: 1}
	contextCost = nic.Cost{Memory: 32 << 10, Descriptors: 2}
	objectCost  = nic.Cost{Memory: 512}
	channelCost = nic.Cost{Memory: 512, Descriptors: 1}
	asyncCost   = nic.Cost{Memory: 2*asyncBuffer + 4096, Descriptors: 2}
)

// An object is anything that has a handle.
type object struct {
	handle  uint32
	serial  uint32 // counts the objects of its kind that were made on the device, from 0
	kind    kind
	self    any       // *pd, *mr and so on
	uses    []*object // objects that cannot be destroyed before this one
	users   int       // objects that have this one in uses
	extents []*extent // the object's rings, records or region are in these extents, which it holds
	destroy func() error
}

// add makes an object with a new handle for self, which the caller has made. destroy destroys
// self; remove calls it.
func (x *uctx) add(k kind, self any, destroy func() error, extents []*extent, uses ...*object) *object {
	for x.next == 0 || x.objects[x.next] != nil {
		x.next++
	}
	o := &object{handle: x.next, serial: x.device.counts[k].Add(1) - 1, kind: k, self: self, destroy: destroy,
		extents: extents, uses: uses}
	x.next++
	x.objects[o.handle] = o
	x.made[k]++
	for _, u := range uses {
		u.users++
	}
	return o
}

// chargeObject charges one more object to the user. The error says why the user may not have
// one more.
func (x *uctx) chargeObject() error { return x.charge(objectCost) }

// chargeQueue is chargeObject for a queue of kind k, of which the engine lets a client have most. The program
// may have as many as it is told (queues), though more are possible if several rings lie in one region.
func (x *uctx) chargeQueue(k kind, most uint32) error {
	if most = queues(x.limits, most); x.made[k] >= most {
		return refuse(eNOMEM, "%v: this context has %d, which is as many as it may have", k, most)
	}
	return x.chargeObject()
}

func (x *uctx) refundObject() { x.refund(objectCost) }

// charge charges a cost to the context's user until it is refunded or the context ends.
func (x *uctx) charge(c nic.Cost) error {
	err := x.s.engine.Charge(x.uid, c)
	if err == nil {
		x.cost = x.cost.Plus(c)
	}
	return err
}

func (x *uctx) refund(c nic.Cost) {
	x.cost = x.cost.Minus(c)
	x.s.engine.Refund(x.uid, c)
}

// usersOf names the objects that use o: "2 MR, 1 QP".
func (x *uctx) usersOf(o *object) string {
	var counts [len(kindNames)]int
	for _, u := range x.objects {
		if slices.Contains(u.uses, o) {
			counts[u.kind]++
		}
	}
	var list []string
	for k, n := range counts {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d %v", n, kind(k)))
		}
	}
	return strings.Join(list, ", ")
}

// unused returns an error if other objects use o.
func (x *uctx) unused(o *object) error {
	if o.users > 0 {
		return refuse(eBUSY, "%s %d: still used by %s", o.kind, o.handle, x.usersOf(o))
	}
	return nil
}

// remove destroys an object.
func (x *uctx) remove(o *object) error {
	if err := x.unused(o); err != nil {
		return err
	}
	if err := o.destroy(); err != nil {
		return err
	}
	delete(x.objects, o.handle)
	x.made[o.kind]--
	x.unsubscribe(o)
	for _, u := range o.uses {
		u.users--
	}
	x.endHolds(o.extents)
	x.refundObject()
	if len(x.rings) > 1 {
		x.endRings() // the program has unmapped the rings of queues that it has destroyed before
	}
	return nil
}

// destroyOnly destroys the object that the call names, with an empty answer.
func (c *call) destroyOnly() error { return c.x.remove(c.destroyed()) }

// destroyed returns the object that the call destroys.
func (c *call) destroyed() *object {
	for _, a := range c.attrs {
		if c.method.field(a.id).shape == destroyedHandle {
			return c.x.objects[uint32(a.data)]
		}
	}
	return nil
}

// destroyWithEvents destroys an object that has events. It answers, in the attribute whose
// number is answer, how many of these events the program has read: libibverbs waits until as
// many have been acknowledged.
func (c *call) destroyWithEvents(answer uint16) error {
	o := c.destroyed()
	if err := c.x.remove(o); err != nil {
		return err
	}
	c.put32(answer, o.self.(eventSource).state().retract(c.x))
	return nil
}
