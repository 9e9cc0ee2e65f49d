//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Multicast groups are recorded only in order to answer requests to attach and detach as the
// kernel does. No datagram is delivered to a group.

// attachMulticast serves ATTACH_MCAST. The request is struct ib_uverbs_attach_mcast.
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

// detachMulticast serves DETACH_MCAST. The request is struct ib_uverbs_detach_mcast.
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

// group returns the queue pair and the GID that an ATTACH_MCAST or DETACH_MCAST names. Both
// requests have the same layout.
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
