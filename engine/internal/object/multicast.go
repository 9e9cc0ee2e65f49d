//go:build linux && (amd64 || arm64)

package object

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/quota"
)

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
