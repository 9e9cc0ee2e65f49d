package verbs

// GIDs are addresses of a device: for each of its two addresses one entry of
// either version of RoCE.

var gidTypeNames = map[uint32]string{1: "IB/RoCE v1", 2: "RoCE v2"}

func gidType(index int) uint32 { return 1 + uint32(index&1) }

// gidEntry is struct ib_uverbs_gid_entry: gid, then u32 index, port, type, ifindex.
func (d *device) gidEntry(index int) []byte {
	b := append([]byte(nil), d.gids[index][:]...)
	for _, v := range []uint32{uint32(index), 1, gidType(index), 1} { // interface 1 is lo
		b = le.AppendUint32(b, v)
	}
	return b
}

func queryGIDEntry(c *call) error {
	port, index := c.value(0), c.value(1)
	switch {
	case c.value(2) != 0:
		return refuse(eINVAL, "flags %#x; none are known", c.value(2))
	case port != 1 || index >= gidTable:
		return refuse(eINVAL, "GID %d of port %d; port 1 has %d", index, port, gidTable)
	case index >= gidsPresent:
		return expected(eNODATA, "GID %d: empty", index)
	}
	c.put(3, c.x.device.gidEntry(int(index)))
	return nil
}

func queryGIDTable(c *call) error {
	size := c.value(0)
	room := c.room(2)
	switch {
	case c.value(1) != 0:
		return refuse(eINVAL, "flags %#x; none are known", c.value(1))
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
	c.put(2, all)
	c.put64(3, gidsPresent)
	return nil
}
