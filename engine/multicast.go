//go:build linux && (amd64 || arm64)

package engine

import (
	"cmp"
	"errors"
	"slices"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// A datagram to the queue pair number multicastQPN goes to all queue pairs of the group that
// its GID names. The WQE is executed once for each of them, in the order in which they joined,
// and completes after the last. Each execution is an ordinary one with its own visit, budget
// and locks, so a large group delays no other queue, and a fault of one receiver harms nobody
// else. A queue pair that cannot take the datagram misses it, and nobody learns of it.

const multicastQPN = 0xffffff

// A group is a multicast group. Members are in the order of their numbers.
type group struct {
	gid     [16]byte
	members []member
}

type member struct {
	number uint64 // grows with each Join in the device; never 0
	qp     *qp
	how    nic.Membership
}

// A castPoint says how far a datagram to a group has come.
type castPoint struct {
	wqe    uint64 // the WQE's block, plus 1; 0: none
	after  uint64 // number of the last member that was served or passed over
	served bool   // somebody was served
}

// membershipCost is the memory of one membership.
const membershipCost = 128

var (
	errManyGIDs    = errors.New("a GID table has at most 256 entries")
	errManyGroups  = errors.New("the device has as many multicast groups as it can have")
	errManyMembers = errors.New("the multicast group has as many queue pairs as it can have")
	errNotUD       = errors.New("only queue pairs of type UD join multicast groups")
)

// Join adds a queue pair to a group.
func (c *caller) Join(qpn uint32, gid [16]byte, how nic.Membership) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.e.Do(func() { err = c.join(qpn, gid, how) })
	return err
}

func (c *caller) join(qpn uint32, gid [16]byte, how nic.Membership) error {
	e, q := c.e, c.qps[qpn]
	switch {
	case q == nil:
		return notFound("QP", qpn)
	case q.transport != control.QPTypeUD:
		return errNotUD
	}
	g := e.groups[gid]
	switch {
	case g == nil && len(e.groups) >= nic.MaxGroups:
		return errManyGroups
	case g != nil && slices.ContainsFunc(g.members, func(m member) bool { return m.qp == q }):
		return nil
	case g != nil && len(g.members) >= nic.MaxMembers:
		return errManyMembers
	}
	if err := e.ledger.Take(c.uid, quota.Charge{quota.Memory: membershipCost}); err != nil {
		return err
	}
	if g == nil {
		g = &group{gid: gid}
		e.groups[gid] = g
	}
	e.joined++
	g.members = append(g.members, member{e.joined, q, how})
	q.datagrams.groups = append(q.datagrams.groups, g)
	return nil
}

// Leave takes a queue pair out of a group.
func (c *caller) Leave(qpn uint32, gid [16]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.e.Do(func() {
		if q := c.qps[qpn]; q != nil && q.datagrams != nil {
			if i := slices.IndexFunc(q.datagrams.groups, func(g *group) bool { return g.gid == gid }); i >= 0 {
				c.e.leave(q, q.datagrams.groups[i])
				q.datagrams.groups = slices.Delete(q.datagrams.groups, i, i+1)
			}
		}
	})
	return nil
}

// leave takes a queue pair out of a group, and refunds what it cost.
func (e *device) leave(q *qp, g *group) {
	g.members = slices.DeleteFunc(g.members, func(m member) bool { return m.qp == q })
	if len(g.members) == 0 {
		delete(e.groups, g.gid)
	}
	e.ledger.Refund(q.client.uid, quota.Charge{quota.Memory: membershipCost})
}

// leaveAll takes a queue pair that ends out of its groups.
func (e *device) leaveAll(q *qp) {
	if q.datagrams == nil {
		return
	}
	for _, g := range q.datagrams.groups {
		e.leave(q, g)
	}
	q.datagrams.groups = nil
}

// addressGroup finds the next queue pair of a group that takes the datagram of j. If there is
// none, the WQE completes.
func (sh *requester) addressGroup(q *qp, j *job, av *wqe.AV) verdict {
	at, point := &q.datagrams.cast, q.sq.done+1
	if at.wqe != point {
		*at = castPoint{wqe: point}
	}
	if g := sh.groups[av.RGID]; g != nil {
		first, _ := slices.BinarySearchFunc(g.members, at.after+1, func(m member, n uint64) int { return cmp.Compare(m.number, n) })
		for _, m := range g.members[first:] {
			sh.sched.effort += pieceCost
			p := m.qp
			if !p.listens() || p.attr.QKey != j.request.qkey || p == q && m.how == nic.HearsOthers {
				at.after = m.number
				continue
			}
			if sh.several && !sh.holds(p.client.shard) {
				sh.postpone(q, p.client.shard)
				return waiting
			}
			sh.putHeader(av, q.client, p.client, j.total)
			j.peer, j.cast = p, m.number
			return accepted
		}
	}
	if !at.served {
		sh.explain(q, codes.UDNobody, "datagram to a multicast group in which no queue pair has qkey %#08x; it is dropped", j.request.qkey)
	}
	return sh.loseMessage(j)
}
