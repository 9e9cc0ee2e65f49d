//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Multicast groups are recorded, so that attaching and detaching is answered as by the
// kernel. No datagram is delivered to a group.

// attachMulticast: struct ib_uverbs_attach_mcast.
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

// detachMulticast: struct ib_uverbs_detach_mcast.
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

// group returns what both requests name; they have one layout.
func group(c *call, req []byte) (q *qp, gid [gidSize]byte, err error) {
	q, err = lookup[*qp](c, "qp", le.Uint32(req[abi.AttachMcastQPHandle:]), kindQP)
	if err != nil {
		return nil, gid, err
	}
	copy(gid[:], req[abi.AttachMcastGID:])
	switch {
	case gid[0] != multicastGID:
		return nil, gid, refuse(eINVAL, "GID %x is not of a multicast group", gid)
	case q.transport != control.QPTypeUD:
		return nil, gid, refuse(eINVAL, "QP %d is not of type UD", q.handle)
	}
	return q, gid, nil
}
