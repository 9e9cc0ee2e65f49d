package verbs

import "github.com/nicless/nicless/engine"

// A kind of object.
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
	kindXRCD  // named by schemas; this device makes none
	kindTable // likewise
)

var kindNames = [...]string{"nothing", "PD", "MR", "MW", "CQ", "QP", "SRQ", "AH", "UAR", "XRC domain", "indirection table"}

func (k kind) String() string { return kindNames[k] }

// Costs, about, beside the device's part. Of an async the events count that nobody
// reads.
var (
	processCost = engine.Cost{Memory: 3*maxDatagram + 4096, Descriptors: 1, Connections: 1} // beside its connection
	contextCost = engine.Cost{Memory: 32 << 10, Descriptors: 2}
	objectCost  = engine.Cost{Memory: 512}
	channelCost = engine.Cost{Memory: 512, Descriptors: 1}
	asyncCost   = engine.Cost{Memory: 2*asyncBuffer + 4096, Descriptors: 2}
)

// An object is something with a handle.
type object struct {
	handle  uint32
	kind    kind
	self    any // *pd, *mr and so on
	uses    []*object
	users   int
	extents []*extent // memory that it lies in
	destroy func() error
}

// add makes an object of something that was made. destroy undoes that.
func (x *uctx) add(k kind, self any, destroy func() error, extents []*extent, uses ...*object) *object {
	for x.next == 0 || x.objects[x.next] != nil {
		x.next++
	}
	o := &object{handle: x.next, kind: k, self: self, destroy: destroy, extents: extents, uses: uses}
	x.next++
	x.objects[o.handle] = o
	for _, u := range uses {
		u.users++
	}
	return o
}

// may says whether another object can be made, and counts it.
func (x *uctx) may() error { return x.charge(objectCost) }

func (x *uctx) mayNot() { x.refund(objectCost) }

// charge counts what is kept for this context.
func (x *uctx) charge(c engine.Cost) error {
	err := x.s.engine.Charge(x.uid, c)
	if err == nil {
		x.cost = x.cost.Plus(c)
	}
	return err
}

func (x *uctx) refund(c engine.Cost) {
	x.cost = x.cost.Minus(c)
	x.s.engine.Refund(x.uid, c)
}

// remove destroys an object.
func (x *uctx) remove(o *object) error {
	if o.users > 0 {
		return refuse(eBUSY, "%s %d: still used by %d objects", o.kind, o.handle, o.users)
	}
	if err := o.destroy(); err != nil {
		return err
	}
	delete(x.objects, o.handle)
	for _, u := range o.uses {
		u.users--
	}
	x.release(o.extents)
	x.mayNot()
	return nil
}

// destroyOnly destroys the object that the call names.
func (c *call) destroyOnly() error { return c.x.remove(c.doomed()) }

// doomed returns the object that the call is to destroy.
func (c *call) doomed() *object {
	for _, a := range c.attrs {
		if c.method.field(a.id).shape == doomed {
			return c.x.objects[uint32(a.data)]
		}
	}
	return nil
}
