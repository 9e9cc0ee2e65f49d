//go:build linux && (amd64 || arm64)

package verbs

import (
	"cmp"
	"slices"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/cm"
	"github.com/nicless/nicless/verbs/internal/nldev"
)

// Resources in NETLINK_RDMA: which ones a program sees, and in which order. The numbers of resources
// count what was made on a device, from 0, as in the kernel (drivers/infiniband/core/restrack.c), except that
// queue pairs have their own.

// resourceKinds has, for each kind of resource, the kind of object.
var resourceKinds = [nldev.NumKinds]kind{nldev.PD: kindPD, nldev.CQ: kindCQ, nldev.QP: kindQP,
	nldev.MR: kindMR, nldev.SRQ: kindSRQ}

// A resource names a resource without keeping it.
type resource struct {
	x      *uctx // nil for an id of rdma_cm
	handle uint32
	id     uint32
}

// resourceCost is the cost of a resource that a dump has still to send.
const resourceCost = 24

// contextsOf returns the contexts of a device that the program sees, in the order in which they were made.
func (c *netlinkCall) contextsOf(d *device) (all []*uctx) {
	s := c.k.s
	s.mu.Lock()
	for _, x := range s.contexts {
		if x.device == d && c.k.sees(x.uid) {
			all = append(all, x)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *uctx) int { return cmp.Compare(a.serial, b.serial) })
	return all
}

// idsOf returns the ids of rdma_cm on a device that the program sees.
func (c *netlinkCall) idsOf(d *device) []cm.IDInfo {
	return c.k.s.manager.IDs(int(d.index), c.k.sees)
}

// resources returns the resources of a kind in the order of their numbers.
func (c *netlinkCall) resources(d *device, which int) (all []resource) {
	if which == nldev.CMID {
		for _, i := range c.idsOf(d) {
			all = append(all, resource{id: i.Number})
		}
		return all
	}
	for _, x := range c.contextsOf(d) {
		if which == nldev.Context {
			all = append(all, resource{x: x, id: x.serial})
			continue
		}
		x.mu.Lock()
		for _, o := range x.objects {
			if o.kind == resourceKinds[which] {
				all = append(all, resource{x, o.handle, o.id()})
			}
		}
		x.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b resource) int { return cmp.Compare(a.id, b.id) })
	return all
}

// id returns the number of an object in netlink.
func (o *object) id() uint32 {
	if q, ok := o.self.(*qp); ok {
		return q.number
	}
	return o.serial
}

// getSummary answers how many resources of each kind there are.
func getSummary(c *netlinkCall) (nldev.List, error) {
	d, err := c.device()
	if err != nil {
		return nil, err
	}
	return c.summary(d), nil
}

func dumpSummary(c *netlinkCall) (*netlinkDump, error) {
	var all []nldev.List
	for _, d := range c.k.s.devices {
		all = append(all, c.summary(d))
	}
	return c.once(nldev.CmdResGet, all...), nil
}

func (c *netlinkCall) summary(d *device) nldev.List {
	var counts [nldev.NumKinds]uint64
	for _, x := range c.contextsOf(d) {
		counts[nldev.Context]++
		x.mu.Lock()
		for _, o := range x.objects {
			if which := slices.Index(resourceKinds[:], o.kind); which >= 0 && o.kind != kindNone {
				counts[which]++
			}
		}
		x.mu.Unlock()
	}
	counts[nldev.CMID] = uint64(len(c.idsOf(d)))
	return d.netlinkInfo().Summary(counts)
}

// getResource answers with one resource, whose attributes are beside those of the device.
func (c *netlinkCall) getResource(which int) (nldev.List, error) {
	t := nldev.Tables[which]
	d, err := c.device()
	id, ok := c.attrs.Uint32(t.ID)
	port, hasPort := c.attrs.Uint32(nldev.AttrPortIndex)
	if err != nil || !ok || hasPort != t.PerPort || (hasPort && (port < 1 || port > devicePorts)) {
		return nil, eINVAL
	}
	r, found := c.named(d, which, id)
	if !found {
		return nil, eNOENT
	}
	e, found := c.entry(d, which, r)
	switch {
	case !found:
		return nil, eNOENT
	case hasPort && e.port != port:
		return nil, eAGAIN
	}
	return append(d.netlinkInfo().Handle(), e.attributes...), nil
}

// named returns the resource of a kind that has a number. An id of rdma_cm may be gone all the same.
func (c *netlinkCall) named(d *device, which int, id uint32) (r resource, found bool) {
	if which == nldev.CMID {
		return resource{id: id}, true
	}
	all := c.resources(d, which)
	byID := func(r resource, id uint32) int { return cmp.Compare(r.id, id) }
	i, found := slices.BinarySearchFunc(all, id, byID)
	if !found {
		return r, false
	}
	return all[i], true
}

// dumpResources answers with all resources of a kind.
func (c *netlinkCall) dumpResources(which int) (*netlinkDump, error) {
	return c.dumpEntries(which, func(d *device, r resource) (entry, bool) { return c.entry(d, which, r) })
}

// dumpEntries answers with the entries of all resources of a kind. If none of them is at the
// port that the request names, it answers with an empty table; if there are none, only with the end.
func (c *netlinkCall) dumpEntries(which int, of func(*device, resource) (entry, bool)) (*netlinkDump, error) {
	d, err := c.device()
	port, hasPort := c.attrs.Uint32(nldev.AttrPortIndex)
	if err != nil || (hasPort && (port < 1 || port > devicePorts)) {
		return nil, eINVAL
	}
	all := c.resources(d, which)
	dump := &netlinkDump{cost: nic.Cost{Memory: len(all) * resourceCost}}
	if err := c.k.s.engine.Charge(c.k.uid, dump.cost); err != nil {
		return nil, eNOMEM
	}
	l := &entries{device: d, which: which, left: all, of: of, port: port, anyPort: !hasPort}
	dump.next = func() []byte {
		attributes, more := l.next()
		if !more {
			return nil
		}
		return nldev.AppendAnswer(nil, c.message.Header, c.port, nldev.Tables[which].Cmd, true, attributes)
	}
	return dump, nil
}

// entries are the messages of a dump of resources.
type entries struct {
	device  *device
	which   int
	left    []resource
	waiting *entry // had no room in the last message
	of      func(*device, resource) (entry, bool)
	port    uint32
	anyPort bool
}

// next returns the next message, and false after the last one.
func (l *entries) next() (nldev.List, bool) {
	if len(l.left) == 0 && l.waiting == nil {
		return nil, false
	}
	table := l.device.netlinkInfo().NewTable(l.which)
	for l.advance() && table.Add(l.waiting.attributes) {
		l.waiting = nil
	}
	return table.Attributes(), true
}

// advance makes the next entry wait, unless one waits already. It reports false if there is none.
func (l *entries) advance() bool {
	for l.waiting == nil && len(l.left) > 0 {
		e, ok := l.of(l.device, l.left[0])
		l.left = l.left[1:]
		if ok && (l.anyPort || e.port == l.port) {
			l.waiting = &e
		}
	}
	return l.waiting != nil
}
