//go:build linux && (amd64 || arm64)

package execution

import (
	"cmp"
	"errors"
	"slices"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// A datagram to the queue pair number MulticastQPN goes to all queue pairs of the group that
// its GID names. The WQE is executed once for each of them, in the order in which they joined,
// and completes after the last. Each execution is an ordinary one with its own visit, budget
// and locks, so a large group delays no other queue, and a fault of one receiver harms no other. A
// queue pair that cannot take the datagram misses it, and this is not reported.

var (
	ErrManyGIDs    = errors.New("a GID table has at most 256 entries")
	ErrManyGroups  = errors.New("the device has as many multicast groups as it can have")
	ErrManyMembers = errors.New("the multicast group has as many queue pairs as it can have")
	ErrNotUD       = errors.New("only queue pairs of type UD join multicast groups")
)

// addressGroup finds the next queue pair of a group that takes the datagram of j. If there is
// none, the WQE completes.
func (sh *requester) addressGroup(q *object.QP, j *object.Job, av *wqe.AV) object.Verdict {
	at, point := &q.Datagrams.Cast, q.SQ.Done+1
	if at.WQE != point {
		*at = object.CastPoint{WQE: point}
	}
	if g := sh.Groups[av.RGID]; g != nil {
		first, _ := slices.BinarySearchFunc(g.Members, at.After+1,
			func(m object.Member, n uint64) int { return cmp.Compare(m.Number, n) })
		for _, m := range g.Members[first:] {
			sh.Sched.Effort += object.PieceCost
			p := m.QP
			if !p.Listens() || p.Attr.QKey != j.Request.QKey || (p == q && m.How == nic.ReceivesOthers) {
				at.After = m.Number
				continue
			}
			if sh.Several && !sh.Holds(p.Client.Shard) {
				sh.Postpone(q, p.Client.Shard)
				return object.Waiting
			}
			sh.PutHeader(av, q.Client, p.Client, j.Total)
			j.Peer, j.Cast = p, m.Number
			return object.Accepted
		}
	}
	if !at.Served {
		sh.Explain(q, codes.UDNoReceiver, "datagram to a multicast group in which no queue pair has qkey %#08x; it is dropped", j.Request.QKey)
	}
	return sh.LoseMessage(j)
}
