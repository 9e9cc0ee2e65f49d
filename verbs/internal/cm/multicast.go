//go:build linux && (amd64 || arm64)

package cm

import (
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A group is an id's membership of a multicast group. The program attaches its queue pair to
// the group's GID itself.
type group struct {
	handle   uint32
	uid      uint64
	id       *id
	reported uint32 // events that the program has read
}

// join serves JOIN_MCAST. The request is struct rdma_ucm_join_mcast.
func (m *Manager) join(c *Call, req []byte) error {
	a := parseSockaddr(req[abi.CMJoinMcastAddr:])
	size, flags := int(le.Uint16(req[abi.CMJoinMcastAddrSize:])), le.Uint16(req[abi.CMJoinMcastJoinFlags:])
	if size == 0 || size != a.size() || flags >= abi.CMJoinFlagReserved {
		return refuse(unix.EINVAL, "JOIN_MCAST: an address of family %d with %d bytes, and flags %#x", a.family, size, flags)
	}
	return m.joinGroup(c, le.Uint32(req[abi.CMJoinMcastID:]), a, le.Uint64(req[abi.CMJoinMcastUID:]),
		le.Uint64(req[abi.CMJoinMcastResponse:]))
}

// joinIP serves JOIN_IP_MCAST, which is older. The request is struct rdma_ucm_join_ip_mcast.
func (m *Manager) joinIP(c *Call, req []byte) error {
	a := parseSockaddr(req[abi.CMJoinIPMcastAddr:][:unix.SizeofSockaddrInet6])
	if !a.addr.IsValid() {
		return refuse(unix.EINVAL, "JOIN_IP_MCAST: an address of family %d", a.family)
	}
	return m.joinGroup(c, le.Uint32(req[abi.CMJoinIPMcastID:]), a, le.Uint64(req[abi.CMJoinIPMcastUID:]),
		le.Uint64(req[abi.CMJoinIPMcastResponse:]))
}

func (m *Manager) joinGroup(c *Call, handle uint32, a sockaddr, uid, response uint64) error {
	i, err := m.find(c, handle)
	if err != nil {
		return err
	}
	if err := i.checkState(stepJoin); err != nil {
		return err
	}
	switch {
	case !i.attached:
		return refuse(unix.EINVAL, "JOIN_MCAST: id %d is bound to no device", i.handle)
	case !i.datagram():
		return refuse(unix.EINVAL, "JOIN_MCAST: id %d is not for datagrams", i.handle)
	case !a.any() && !a.ip().IsMulticast():
		return refuse(unix.EINVAL, "JOIN_MCAST: %v is not the address of a group", a.addr)
	}
	if err := m.Accounts.Charge(i.channel.uid, groupCost); err != nil {
		return err
	}
	for m.groups[m.nextMC] != nil {
		m.nextMC++
	}
	g := &group{handle: m.nextMC, uid: uid, id: i}
	m.nextMC++
	m.groups[g.handle] = g
	i.groups = append(i.groups, g)
	c.respond(response, le.AppendUint32(nil, g.handle))

	e := newEvent(i, multicastJoin, 0)
	e.group = g
	e.name(g.uid, g.handle)
	e.datagrams(multicastQPN, i.theQKey(), i.handleAttr(g.address(&a)))
	i.notify(e)
	return nil
}

// leave serves LEAVE_MCAST. The request is struct rdma_ucm_destroy_id.
func (m *Manager) leave(c *Call, req []byte) error {
	g := m.groups[le.Uint32(req[abi.CMDestroyIDID:])]
	switch {
	case g == nil:
		return refuse(unix.ENOENT, "LEAVE_MCAST: there is no membership %d", le.Uint32(req[abi.CMDestroyIDID:]))
	case g.id.channel != c.Channel:
		return refuse(unix.EINVAL, "LEAVE_MCAST: membership %d is of another channel", g.handle)
	}
	g.id.channel.drop(func(e *event) bool { return e.group == g })
	m.dropGroup(g)
	c.respond(le.Uint64(req[abi.CMDestroyIDResponse:]), le.AppendUint32(nil, g.reported))
	return nil
}

// dropGroup ends a membership.
func (m *Manager) dropGroup(g *group) {
	delete(m.groups, g.handle)
	m.Accounts.Refund(g.id.channel.uid, groupCost)
	var rest []*group
	for _, other := range g.id.groups {
		if other != g {
			rest = append(rest, other)
		}
	}
	g.id.groups = rest
}
