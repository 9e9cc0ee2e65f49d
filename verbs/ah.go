package verbs

// An ah is the address of a peer, for datagrams. The library puts it into its
// WQEs; here is only what a number stands for.
type ah struct{ *object }

// createAH: response u64, user_handle u64, pd u32, reserved u32, then the address:
// dgid, flow_label u32@16, sgid_index@20, hop_limit@21, tclass@22, dlid u16@24,
// sl@26, path@27, rate@28, is_global@29, port@30.
func createAH(c *call, req []byte) error {
	x := c.x
	p, err := lookup[*pd](c, "pd", le.Uint32(req[16:]), kindPD)
	if err != nil {
		return err
	}
	to := req[24:]
	if err := address(to[29], to[30], to[20]); err != nil {
		return err
	}
	if err := x.may(); err != nil {
		return err
	}
	a := new(ah)
	a.object = x.add(kindAH, a, func() error { return nil }, nil, p.object)
	c.put32(1, a.handle)
	d := make([]byte, 16)
	le.PutUint32(d, uint32(len(d)))
	mac := x.s.macOf(to[:16])
	copy(d[4:], mac[:])
	c.put(uhwOut, d)
	return nil
}

// address judges what every address has.
func address(global, port, source uint8) error {
	switch {
	case port != 1:
		return refuse(eINVAL, "address: port %d; there is one, 1", port)
	case global == 0:
		return refuse(eINVAL, "address: is_global is 0; on Ethernet every address has a GID (ibv_rc_pingpong and its like: -g 0)")
	case source >= gidsPresent:
		return refuse(eINVAL, "address: sgid_index %d; there are %d", source, gidsPresent)
	}
	return nil
}

// macOf is the address of a device on Ethernet. One that is not ours is never
// reached: the device finds receivers by their numbers.
func (s *Server) macOf(gid []byte) (m [6]byte) {
	if d := s.reach(gid); d != nil {
		return d.mac()
	}
	if gid[0] == 0xff { // multicast
		return [6]byte{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}
	}
	m[0] = 2
	copy(m[1:], gid[11:16])
	return m
}
