//go:build linux && (amd64 || arm64)

package cm

import "net/netip"

// Any number of ids can have one port (REUSEADDR, or different addresses), and programs choose
// how many. So the ids of a port are filed by what the rules about ports need of them, and no
// command looks at all of them.

// A class has the attributes of an id that matter besides its address.
type class struct {
	family      uint16
	only, reuse bool
	state       state // bound or listening; idle stands for all others
}

// holders are ids by class. A command looks at the classes, of which there are few, and in most
// cases at one id.
type holders map[class]map[*id]bool

// A place is where an id is filed.
type place struct {
	class class
	addr  netip.Addr // zero: the wildcard address, of any family
	gid   GID        // of the port, for an id of AF_IB with an address
}

// A portUse has the ids of a port.
type portUse struct {
	all  holders
	addr map[netip.Addr]holders
	gid  map[GID]holders
}

// place returns where an id belongs.
func (i *id) place() place {
	p := place{class: class{family: i.src.family, only: i.only, reuse: i.reuse}}
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

// holdPort gives an id a port.
func (i *id) holdPort(key portKey) {
	i.port = &key
	i.file()
}

// refile is called when the place of an id may have changed.
func (i *id) refile() {
	if i.port != nil && i.filed != i.place() {
		i.unfile()
		i.file()
	}
}

func (i *id) leavePort() {
	if i.port != nil {
		i.unfile()
		i.port = nil
	}
}

func (i *id) file() {
	u := i.m.ports[*i.port]
	if u == nil {
		u = &portUse{all: make(holders), addr: make(map[netip.Addr]holders), gid: make(map[GID]holders)}
		i.m.ports[*i.port] = u
	}
	i.filed = i.place()
	u.all.add(i)
	addTo(u.addr, i.filed.addr, i)
	if i.filed.gid != (GID{}) {
		addTo(u.gid, i.filed.gid, i)
	}
}

func (i *id) unfile() {
	u := i.m.ports[*i.port]
	u.all.remove(i)
	removeFrom(u.addr, i.filed.addr, i)
	if i.filed.gid != (GID{}) {
		removeFrom(u.gid, i.filed.gid, i)
	}
	if len(u.all) == 0 {
		delete(i.m.ports, *i.port)
	}
}

func (h holders) add(i *id) {
	set := h[i.filed.class]
	if set == nil {
		set = make(map[*id]bool)
		h[i.filed.class] = set
	}
	set[i] = true
}

func (h holders) remove(i *id) {
	set := h[i.filed.class]
	delete(set, i)
	if len(set) == 0 {
		delete(h, i.filed.class)
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

// first returns an id, of a class for which want is true, that itself is wanted; nil if there is
// none. It stops at the first one.
func (h holders) first(want func(class) bool, wanted func(*id) bool) *id {
	for c, set := range h {
		if !want(c) {
			continue
		}
		for i := range set {
			if wanted(i) {
				return i
			}
		}
	}
	return nil
}
