//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/abi"

// A GID is an address of a device. A device has a GID table for each network namespace. The table
// has two entries for each address of the namespace (netns.go), one for each version of RoCE.

const (
	gidSize      = 16 // bytes
	gidTableSize = 64 // entries of the table of an Ethernet port
)

// A gidEntry is an entry of a GID table.
type gidEntry struct {
	gid     [gidSize]byte
	kind    uint32 // GIDTypeRoCEV1 or GIDTypeRoCEV2; GIDTypeIB on InfiniBand
	ifindex uint32
	ifname  string
}

// gidEntries is the number of entries of a device's GID table.
func (d *device) gidEntries() int {
	if d.lid != 0 {
		return 8 // only the first entry is used
	}
	return gidTableSize
}

// gidTypeNames are the names of the GID types in sysfs.
var gidTypeNames = map[uint32]string{abi.GIDTypeIB: "IB/RoCE v1", abi.GIDTypeRoCEV1: "IB/RoCE v1",
	abi.GIDTypeRoCEV2: "RoCE v2"}

// gidType returns the GID type of an entry on Ethernet.
func gidType(index int) uint32 {
	if index%2 == 0 {
		return abi.GIDTypeRoCEV1
	}
	return abi.GIDTypeRoCEV2
}

// entry returns an entry of a device's GID table; ok is false if the entry is empty.
func (n *netns) entry(d *device, index int) (e gidEntry, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if d.lid != 0 { // the GID of an InfiniBand port is of no interface
		if index != 0 {
			return e, false
		}
		return gidEntry{gid: d.linkLocal(), kind: abi.GIDTypeIB}, true
	}
	if index < 0 || index >= 2*(1+len(n.slots)) {
		return e, false
	}
	s := slot{address: n.home, present: true}
	if index < 2 {
		s.gid = d.linkLocal()
	} else {
		s = n.slots[index/2-1]
		if s.made {
			s.gid = d.global()
		}
	}
	if !s.present {
		return e, false
	}
	return gidEntry{gid: s.gid, kind: gidType(index), ifindex: s.ifindex, ifname: s.ifname}, true
}

// indexOf returns the index of a GID of the given type in a device's table.
func (n *netns) indexOf(d *device, gid [gidSize]byte, kind uint32) (index int, ok bool) {
	for i := range d.gidEntries() {
		if e, ok := n.entry(d, i); ok && e.gid == gid && e.kind == kind {
			return i, true
		}
	}
	return 0, false
}

// deviceOf returns the first device that has a GID in this namespace, nil if none has.
func (n *netns) deviceOf(all []*device, gid [gidSize]byte) *device {
	for _, d := range all {
		kind := uint32(abi.GIDTypeRoCEV2)
		if d.lid != 0 {
			kind = abi.GIDTypeIB
		}
		if _, ok := n.indexOf(d, gid, kind); ok {
			return d
		}
	}
	return nil
}

// bytes returns a struct ib_uverbs_gid_entry.
func (e *gidEntry) bytes(index int) []byte {
	b := make([]byte, abi.GIDEntrySize)
	copy(b[abi.GIDEntryGID:], e.gid[:])
	le.PutUint32(b[abi.GIDEntryGIDIndex:], uint32(index))
	le.PutUint32(b[abi.GIDEntryPortNum:], 1)
	le.PutUint32(b[abi.GIDEntryGIDType:], e.kind)
	le.PutUint32(b[abi.GIDEntryNetdevIfindex:], e.ifindex)
	return b
}

// queryGIDEntry serves QUERY_GID_ENTRY of the device.
func queryGIDEntry(c *call) error {
	port, index, flags := c.value(abi.AttrQueryGIDEntryPort), c.value(abi.AttrQueryGIDEntryGIDIndex),
		c.value(abi.AttrQueryGIDEntryFlags)
	switch {
	case flags != 0:
		return refuse(eINVAL, "flags %#x; none are known", flags)
	case port != 1 || index >= uint64(c.x.device.gidEntries()):
		return refuse(eINVAL, "GID %d of port %d; port 1 has %d", index, port, c.x.device.gidEntries())
	}
	e, ok := c.x.net.entry(c.x.device, int(index))
	if !ok {
		return expected(eNODATA, "GID %d: empty", index)
	}
	c.put(abi.AttrQueryGIDEntryRespEntry, e.bytes(int(index)))
	return nil
}

// queryGIDTable serves QUERY_GID_TABLE of the device: it returns the entries that are not empty.
func queryGIDTable(c *call) error {
	size, flags := c.value(abi.AttrQueryGIDTableEntrySize), c.value(abi.AttrQueryGIDTableFlags)
	room := c.room(abi.AttrQueryGIDTableRespEntries)
	switch {
	case flags != 0:
		return refuse(eINVAL, "flags %#x; none are known", flags)
	case size == 0 || size > uint64(room):
		return refuse(eINVAL, "entries of %d bytes, and room for %d", size, room)
	}
	var all []byte
	count := uint64(0)
	for i := range c.x.device.gidEntries() {
		e, ok := c.x.net.entry(c.x.device, i)
		if !ok {
			continue
		}
		count++
		if count > uint64(room)/size {
			return refuse(eINVAL, "room for %d GIDs; there are more", uint64(room)/size)
		}
		b := make([]byte, size)
		copy(b, e.bytes(i))
		all = append(all, b...)
	}
	c.put(abi.AttrQueryGIDTableRespEntries, all)
	c.put64(abi.AttrQueryGIDTableRespNumEntries, count)
	return nil
}
