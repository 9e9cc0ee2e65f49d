package verbs

// Multicast groups are remembered, and nothing is sent to them: there is nobody
// who would forward a datagram to a group.

// attachMulticast and detachMulticast: gid, qp u32, lid u16.
func attachMulticast(c *call, req []byte) error {
	q, gid, err := group(c, req)
	switch {
	case err != nil:
		return err
	case q.groups[gid]:
		return nil // as the kernel does
	case len(q.groups) >= maxGroups:
		return refuse(eNOMEM, "QP %d is in %d multicast groups, which is its limit", q.handle, maxGroups)
	}
	q.groups[gid] = true
	return nil
}

func detachMulticast(c *call, req []byte) error {
	q, gid, err := group(c, req)
	switch {
	case err != nil:
		return err
	case !q.groups[gid]:
		return refuse(eINVAL, "QP %d is not in that multicast group", q.handle)
	}
	delete(q.groups, gid)
	return nil
}

func group(c *call, req []byte) (q *qp, gid [16]byte, err error) {
	q, err = lookup[*qp](c, "qp", le.Uint32(req[16:]), kindQP)
	if err != nil {
		return nil, gid, err
	}
	copy(gid[:], req)
	switch {
	case gid[0] != 0xff:
		return nil, gid, refuse(eINVAL, "GID %x is not of a multicast group", gid)
	case q.transport != 2:
		return nil, gid, refuse(eINVAL, "QP %d is not of type UD", q.handle)
	}
	return q, gid, nil
}
