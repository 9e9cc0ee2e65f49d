//go:build linux && (amd64 || arm64)

package object

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/nic"
)

// A Group is a multicast group. Members are in the order of their numbers.
type Group struct {
	GID     [16]byte
	Members []Member
}

type Member struct {
	Number uint64 // grows with each Join in the device; never 0
	QP     *QP
	How    nic.Membership
}

// A CastPoint says how far a datagram to a group has come.
type CastPoint struct {
	WQE    uint64 // the WQE's block, plus 1; 0: none
	After  uint64 // number of the last member that was served or passed over
	Served bool   // somebody was served
}

// MembershipCost is the memory of one membership.
const MembershipCost = 128

// Leave takes a queue pair out of a group, and refunds what it cost.
func (e *Device) Leave(q *QP, g *Group) {
	g.Members = slices.DeleteFunc(g.Members, func(m Member) bool { return m.QP == q })
	if len(g.Members) == 0 {
		delete(e.Groups, g.GID)
	}
	e.Ledger.Refund(q.Client.UID, quota.Charge{quota.Memory: MembershipCost})
}

// LeaveAll takes a queue pair that ends out of its groups.
func (e *Device) LeaveAll(q *QP) {
	if q.Datagrams == nil {
		return
	}
	for _, g := range q.Datagrams.Groups {
		e.Leave(q, g)
	}
	q.Datagrams.Groups = nil
}
