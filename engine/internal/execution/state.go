//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// ShardOfPeer returns the shard whose lock is needed for the peer of q and not held yet. It
// returns nil if no further lock is needed, or if no peer is known. The peer of a datagram,
// or of a WQE of a DCI, is not known before the WQE has been judged.
func (sh *queues) ShardOfPeer(q *object.QP) *object.Shard {
	p := q.Conn.Peer
	switch {
	case q.Transport == control.QPTypeUD:
		if q.Job == nil {
			return nil
		}
		p = q.Job.Peer
	case q.Transport == control.QPTypeDCI:
		p = sh.TargetOf(q)
	case p == nil || p.Dead:
		p = sh.BoundPeer(q)
	}
	if p == nil || sh.Holds(p.Client.Shard) {
		return nil
	}
	return p.Client.Shard
}

// links is the transport over links, as the execution of work requests sees it.
type links interface {
	LeaveWire(q *object.QP)
	StopWire(q *object.QP)
	RewindQueue(q *object.QP)
	Doubted(q *object.QP) bool
	Leaves(q *object.QP, av *wqe.AV) bool
	SendDatagram(q *object.QP, j *object.Job, av *wqe.AV) object.Verdict
}

// A queues keeps the states of queue pairs: transitions, stalls, flushes.
type queues struct {
	mover
	Links links
}

// SetState moves a QP to a state, and does to its queues what follows from the new state.
func (sh *queues) SetState(q *object.QP, to uint8) {
	from := q.Attr.State
	q.Attr.State, q.Attr.CurState = to, to
	q.Conn.Peer = nil
	switch {
	case to == control.StateRST:
		// Everything is forgotten, without completions. The client sets its records to 0
		// itself.
		sh.Links.LeaveWire(q)
		sh.RemoveRunning(q)
		sh.drop(q)
		q.SQ.CQ.Forget(q.Num)
		q.RQ.CQ.Forget(q.Num)
		q.SQ.Done, q.SQ.Ahead, q.SQ.Enabled, q.RQ.Done, q.Failed, q.Faulted, q.Conn.Bound, q.RNRIndex = 0, 0, 0, 0, false, 0, 0, 0
		if q.Datagrams != nil {
			q.Datagrams.Cast = object.CastPoint{}
		}
		if q.DC != nil {
			q.DC.Errored = nil
		}
		q.Conn.Path = nil
		q.Suspicion = object.Suspicion{Reborn: q.Suspicion.Reborn || from != control.StateRST}
		q.Attr = control.QPAttr{QPN: q.Num}
	case to == control.StateERR:
		sh.Links.StopWire(q)
		sh.drop(q)
		if q.RQ.SRQ != nil {
			q.Event(control.EventLastWQE)
		}
	case to == control.StateSQE:
		sh.Links.StopWire(q)
		sh.Unstall(q)
		sh.ParkJob(q)
	case to == control.StateSQD:
		sh.Unstall(q) // the WQE that waits counts as not started
		draining := false
		if w := q.Wire; w != nil {
			draining = w.Out.First != w.Out.Last
			w.Out.Draining = draining
		}
		if !draining && q.Job == nil {
			sh.Drained(q)
		}
	case from == control.StateSQE:
		q.Failed = false // the next failure counts as the first
		q.SQ.Enabled = max(q.SQ.Enabled, q.SQ.Done)
	}
	if from == control.StateRST && to != control.StateRST {
		// A QP in ERR is running too: it has work to flush.
		sh.AddRunning(q)
	}
	if to == control.StateRTS && q.SQ.BlueFlame != nil {
		q.SQ.BlueFlame.Observe()
	}
	switch to {
	case control.StateRTS, control.StateSQD, control.StateSQE, control.StateERR:
		sh.MarkWarm(q) // work may have been announced before
	}
}

// Drained raises the event which says that a send queue in SQD has stopped.
func (sh *mover) Drained(q *object.QP) { q.Event(control.EventDrained) }

// drop ends the work that q is in the middle of. Jobs of other queue pairs that have q as
// their peer see that q.life has changed. They are judged again, according to q's new state.
func (sh *queues) drop(q *object.QP) {
	sh.Unstall(q)
	sh.ParkJob(q)
	sh.recallTasks(nil, nil, q)
	q.Life++
}

// SetError moves a QP to ERR. From the next step on its queues are flushed, in order.
func (sh *queues) SetError(q *object.QP) {
	if q.Attr.State != control.StateERR && q.Attr.State != control.StateRST {
		sh.SetState(q, control.StateERR)
	}
}
