//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A UD queue pair that is attached to a multicast group receives the datagrams that any queue
// pair of the engine sends to the group, whichever program and device it belongs to. The engine
// delivers them (engine/internal/execution/multicast.go).

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
	how := nic.ReceivesOwn
	if q.blocksLoopback {
		how = nic.ReceivesOthers
	}
	if err := c.x.client.Join(q.number, gid, how); err != nil {
		return refuse(eNOMEM, "multicast group %s: %v", gidText(gid), err)
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
	return c.x.client.Leave(q.number, gid)
}

// group returns the queue pair and the GID that an ATTACH_MCAST or DETACH_MCAST names. Both
// requests have the same layout.
func group(c *call, req []byte) (q *qp, gid [gidSize]byte, err error) {
	q, err = lookup[*qp](c, "qp", le.Uint32(req[abi.AttachMcastQPHandle:]), kindQP)
	if err != nil {
		return nil, gid, err
	}
	copy(gid[:], req[abi.AttachMcastGID:])
	lid := le.Uint16(req[abi.AttachMcastMLID:])
	switch {
	case !(&address{gid: gid}).ip().IsMulticast():
		return nil, gid, refuse(eINVAL, "GID %s is not of a multicast group", gidText(gid))
	case c.x.device.lid != 0 && (lid < multicastLID || lid == permissiveLID):
		return nil, gid, refuse(eINVAL, "LID %#x is not of a multicast group", lid)
	case q.transport != control.QPTypeUD:
		return nil, gid, refuse(eINVAL, "QP %d is not of type UD", q.handle)
	}
	return q, gid, nil
}
