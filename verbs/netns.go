//go:build linux && (amd64 || arm64)

package verbs

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// An address is an address of a network interface, as a GID: an IPv4 address is mapped to
// IPv6.
type address struct {
	gid     [gidSize]byte
	ifindex uint32
	ifname  string
	prefix  uint8 // length of the prefix, in bits of the interface's own address family
}

func (a *address) ip() netip.Addr { return netip.AddrFrom16(a.gid).Unmap() }

// A netns has the addresses that one user's programs have sent for one network namespace. The GID
// tables of the devices (gid.go) follow from them, and have the same addresses. An address has a
// slot, which is two entries of a table: one for each version of RoCE. Slot 0 is the device's own
// link-local GID.
//
// A slot is given to another address only if all slots have been used. So a GID keeps its index
// when others come and go, and gets its index back when it returns.
type netns struct {
	key  netnsKey
	tree netnsTree
	held int // number of processes and contexts that use the netns; guarded by networks.mu

	// watch_addresses.go
	look      sync.Mutex  // held from a look at the addresses until the table has them
	lookWaits atomic.Bool // a look of lookAll waits for the lock

	mu    sync.RWMutex
	home  address // an address of the interface of slot 0; its gid is not used
	slots []slot  // slot 1 and those after it
	clock uint64  // number of scans so far
}

type slot struct {
	address
	present bool   // the last scan found the address, or the address is made
	made    bool   // no interface has the address: each device has a GID of its own here (device.made)
	gone    uint64 // number of the scan that did not find the address any more
}

const (
	maxSlots = gidTableSize / 2
	loopback = 1 // interface index of lo in every namespace
)

// newNetns returns a namespace whose addresses are not known yet.
func newNetns(key netnsKey) *netns {
	return &netns{key: key, home: interfaceLo}
}

var interfaceLo = address{ifindex: loopback, ifname: "lo"}

// Classes of addresses, in the order in which a first scan puts them into the table.
const (
	classGlobal = iota
	classLinkLocal
	classLoopback
)

func (a *address) class() int {
	ip := a.ip()
	switch {
	case ip.IsLoopback():
		return classLoopback
	case ip.IsLinkLocalUnicast():
		return classLinkLocal
	}
	return classGlobal
}

// scan brings the table up to date with all the addresses of the namespace. It reports whether
// the table has changed.
func (n *netns) scan(found []address) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b address) int { return cmp.Compare(a.class(), b.class()) })
	found = found[:min(len(found), maxSlots-2)] // one slot is for slot 0, one for a made address
	n.clock++
	changed = n.chooseHome(found)
	global := false
	var add []address
	seen := make([]bool, len(n.slots))
	for _, a := range found {
		global = global || a.class() == classGlobal
		i := slices.IndexFunc(n.slots, func(s slot) bool {
			return !s.made && s.gid == a.gid && s.ifindex == a.ifindex
		})
		if i < 0 {
			add = append(add, a)
			continue
		}
		changed = changed || !n.slots[i].present || n.slots[i].address != a
		n.slots[i].address, n.slots[i].present, seen[i] = a, true, true
	}
	made := false
	for i := range seen {
		s := &n.slots[i]
		made = made || s.made
		if s.present && !seen[i] && !s.made {
			s.present, s.gone, changed = false, n.clock, true
		}
	}
	for _, a := range add {
		changed = n.place(slot{address: a, present: true}) || changed
	}
	// Programs that want a GID of global scope find one in every namespace.
	if !global && !made {
		changed = n.place(slot{address: n.home, present: true, made: true}) || changed
	}
	return changed
}

// chooseHome chooses the interface of slot 0: the one of the first address, as long as that
// interface has addresses. It reports whether the choice has changed.
func (n *netns) chooseHome(found []address) bool {
	before := n.home
	kept := func(a address) bool { return a.ifindex == n.home.ifindex && n.home.ifindex != loopback }
	if slices.ContainsFunc(found, kept) {
		return false
	}
	n.home = interfaceLo
	if len(found) > 0 && found[0].class() != classLoopback {
		n.home = found[0]
	}
	return n.home != before
}

// place gives an address a slot: a fresh one, or else the one that has been empty for longest.
func (n *netns) place(s slot) bool {
	if len(n.slots) < maxSlots-1 {
		n.slots = append(n.slots, s)
		return true
	}
	oldest := -1
	for i := range n.slots {
		if !n.slots[i].present && (oldest < 0 || n.slots[i].gone < n.slots[oldest].gone) {
			oldest = i
		}
	}
	if oldest >= 0 {
		n.slots[oldest] = s
	}
	return oldest >= 0
}

// hasIP reports whether an interface of the namespace has an address. scope is the number of the
// interface that a link-local address is of; 0 means any.
func (n *netns) hasIP(ip netip.Addr, scope uint32) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.ContainsFunc(n.slots, func(s slot) bool {
		return s.present && !s.made && s.ip() == ip &&
			(scope == 0 || scope == s.ifindex || !ip.IsLinkLocalUnicast())
	})
}

// interfaceName returns the name of the interface that is a device's own.
func (n *netns) interfaceName() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.home.ifname
}
