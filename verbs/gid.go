//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/abi"

// A GID is an address of a device (netns.go). A GID table has two entries for each address,
// one for each version of RoCE.

const gidSize = 16

// gidTypeNames are the names of the GID types in sysfs.
var gidTypeNames = map[uint32]string{abi.GIDTypeIB: "IB/RoCE v1", abi.GIDTypeRoCEV1: "IB/RoCE v1",
	abi.GIDTypeRoCEV2: "RoCE v2"}

func gidType(index int) uint32 {
	if index%2 == 0 {
		return abi.GIDTypeRoCEV1
	}
	return abi.GIDTypeRoCEV2
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
