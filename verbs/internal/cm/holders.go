//go:build linux && (amd64 || arm64)

package cm

import "net/netip"

// Any number of ids can have one port (REUSEADDR, or different addresses), and programs choose how many. So
// each port has an index of its ids (portUse), by the attributes that the rules about ports compare. No
// command has to go through all ids of a port.

// A class has the attributes of an id that matter besides its address.
type class struct {
	family      uint16
	only, reuse bool
	state       state // bound or listening; idle stands for all others
}

// holders are ids by class. There are few classes. A command goes through the classes, and in most cases
// through one id of a class.
type holders map[class]map[*id]bool

// An indexKey says where an id is in the index of its port.
type indexKey struct {
	class class
	addr  netip.Addr // zero: the wildcard address, of any family
	gid   GID        // of the port, for an id of AF_IB with an address
}

// A portUse is the index of the ids that have a port.
type portUse struct {
	all  holders
	addr map[netip.Addr]holders // by indexKey.addr
	gid  map[GID]holders        // by indexKey.gid, if that is not zero
}

// indexKey returns where an id belongs in the index, as its fields are now.
func (i *id) indexKey() indexKey {
	p := indexKey{class: class{family: i.src.family, only: i.only, reuse: i.reuse}}
	if i.state == bound || i.state == listening {
		p.class.state = i.state
	}
	if !i.src.any() {
		p.addr = i.src.addr
		if i.src.family == afIB {
			p.gid = i.local.GID
		}
	}
	return p
}

// holdPort gives an id a port, and puts it into the index of the port.
func (i *id) holdPort(key portKey) {
	i.port = &key
	i.index()
}

// reindex is called when a field has changed that may be part of the id's indexKey.
func (i *id) reindex() {
	if i.port != nil && i.indexedAs != i.indexKey() {
		i.unindex()
		i.index()
	}
}

func (i *id) leavePort() {
	if i.port != nil {
		i.unindex()
		i.port = nil
	}
}

func (i *id) index() {
	u := i.m.ports[*i.port]
	if u == nil {
		u = &portUse{all: make(holders), addr: make(map[netip.Addr]holders), gid: make(map[GID]holders)}
		i.m.ports[*i.port] = u
	}
	i.indexedAs = i.indexKey()
	u.all.add(i)
	addTo(u.addr, i.indexedAs.addr, i)
	if i.indexedAs.gid != (GID{}) {
		addTo(u.gid, i.indexedAs.gid, i)
	}
}

func (i *id) unindex() {
	u := i.m.ports[*i.port]
	u.all.remove(i)
	removeFrom(u.addr, i.indexedAs.addr, i)
	if i.indexedAs.gid != (GID{}) {
		removeFrom(u.gid, i.indexedAs.gid, i)
	}
	if len(u.all) == 0 {
		delete(i.m.ports, *i.port)
	}
}

func (h holders) add(i *id) {
	set := h[i.indexedAs.class]
	if set == nil {
		set = make(map[*id]bool)
		h[i.indexedAs.class] = set
	}
	set[i] = true
}

func (h holders) remove(i *id) {
	set := h[i.indexedAs.class]
	delete(set, i)
	if len(set) == 0 {
		delete(h, i.indexedAs.class)
	}
}

func addTo[K comparable](m map[K]holders, k K, i *id) {
	if m[k] == nil {
		m[k] = make(holders)
	}
	m[k].add(i)
}

func removeFrom[K comparable](m map[K]holders, k K, i *id) {
	m[k].remove(i)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}

// first returns an id for which wantID is true, of a class for which wantClass is true; nil if there is
// none. It stops at the first such id.
func (h holders) first(wantClass func(class) bool, wantID func(*id) bool) *id {
	for c, set := range h {
		if !wantClass(c) {
			continue
		}
		for i := range set {
			if wantID(i) {
				return i
			}
		}
	}
	return nil
}
