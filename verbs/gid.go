//go:build linux && (amd64 || arm64)

package verbs

import "github.com/nicless/nicless/verbs/internal/abi"

// A GID is an address of a device. A device has two addresses. Its GID table has two entries
// for each address, one for each version of RoCE.

const gidSize = 16

// multicastGID is the first byte of the GID of a multicast group.
const multicastGID = 0xff

// gidTypeNames are the names of the GID types in sysfs.
var gidTypeNames = map[uint32]string{abi.GIDTypeRoCEV1: "IB/RoCE v1", abi.GIDTypeRoCEV2: "RoCE v2"}

func gidType(index int) uint32 {
	if index%2 == 0 {
		return abi.GIDTypeRoCEV1
	}
	return abi.GIDTypeRoCEV2
}

// gidInterface is the network interface of every GID: lo.
const gidInterface = 1

// gidEntry returns a struct ib_uverbs_gid_entry.
func (d *device) gidEntry(index int) []byte {
	b := make([]byte, abi.GIDEntrySize)
	copy(b[abi.GIDEntryGID:], d.gids[index][:])
	le.PutUint32(b[abi.GIDEntryGIDIndex:], uint32(index))
	le.PutUint32(b[abi.GIDEntryPortNum:], 1)
	le.PutUint32(b[abi.GIDEntryGIDType:], gidType(index))
	le.PutUint32(b[abi.GIDEntryNetdevIfindex:], gidInterface)
	return b
}

func queryGIDEntry(c *call) error {
	port, index, flags := c.value(abi.AttrQueryGIDEntryPort), c.value(abi.AttrQueryGIDEntryGIDIndex), c.value(abi.AttrQueryGIDEntryFlags)
	switch {
	case flags != 0:
		return refuse(eINVAL, "flags %#x; none are known", flags)
	case port != 1 || index >= gidTable:
		return refuse(eINVAL, "GID %d of port %d; port 1 has %d", index, port, gidTable)
	case index >= gidsPresent:
		return expected(eNODATA, "GID %d: empty", index)
	}
	c.put(abi.AttrQueryGIDEntryRespEntry, c.x.device.gidEntry(int(index)))
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
	case uint64(room)/size < gidsPresent:
		return refuse(eINVAL, "room for %d GIDs; there are %d", uint64(room)/size, gidsPresent)
	}
	var all []byte
	for i := range gidsPresent {
		e := make([]byte, size)
		copy(e, c.x.device.gidEntry(i))
		all = append(all, e...)
	}
	c.put(abi.AttrQueryGIDTableRespEntries, all)
	c.put64(abi.AttrQueryGIDTableRespNumEntries, gidsPresent)
	return nil
}
