//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// ShardOfPeer returns the shard whose lock is needed for the peer of q and not held yet. It
// returns nil if no further lock is needed, or if no peer is known. The peer of a datagram,
// or of a WQE of a DCI, is not known before the WQE has been checked.
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

// SetState moves a QP to a state, and does to its queues what follows from the new state.
func (sh *queues) SetState(q *object.QP, to uint8) {
	from := q.Attr.State
	if q.Watched != 0 {
		sh.RecordState(q, from, to)
	}
	q.Attr.State, q.Attr.CurState = to, to
	q.Conn.Peer = nil
	switch {
	case to == control.StateRST:
		// All work is dropped, without completions. The client sets its records to 0 itself.
		sh.Links.LeaveWire(q)
		sh.RemoveRunning(q)
		sh.drop(q)
		q.SQ.CQ.ReleaseHeld(q.Num)
		q.RQ.CQ.ReleaseHeld(q.Num)
		q.SQ.Done, q.SQ.Ahead, q.SQ.Enabled, q.RQ.Done, q.RNRIndex = 0, 0, 0, 0, 0
		q.Failed, q.Faulted, q.Conn.Bound = false, 0, 0
		if q.Faults != nil {
			q.Faults.Reset()
		}
		if q.Datagrams != nil {
			q.Datagrams.Cast = object.CastPoint{}
		}
		if q.DC != nil {
			q.DC.Errored = nil
		}
		q.Conn.Path = nil
		q.Suspicion = object.Suspicion{WasReset: q.Suspicion.WasReset || from != control.StateRST}
		q.Attr = control.QPAttr{QPN: q.Num}
	case to == control.StateERR:
		sh.Links.StopWire(q)
		sh.Stops(q)
		sh.drop(q)
		if q.RQ.SRQ != nil {
			q.Event(control.EventLastWQE)
		}
	case to == control.StateSQE:
		sh.Links.StopWire(q)
		sh.Stops(q)
		sh.Unstall(q)
		sh.EndJob(q)
	case to == control.StateSQD:
		sh.Unstall(q) // the WQE that waits counts as not started
		draining := false
		if w := q.Wire; w != nil {
			draining = w.Out.First != w.Out.Last
			w.Out.Draining = draining
		}
		if !draining && q.Job == nil {
			sh.NotifyDrained(q)
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

// drop ends the work that q is in the middle of. Jobs of other queue pairs that have q as
// their peer see that q.Life has changed. They are checked again, according to q's new state.
func (sh *queues) drop(q *object.QP) {
	sh.Unstall(q)
	sh.EndJob(q)
	sh.recallTasks(nil, nil, q)
	q.Life++
}

// SetError moves a QP to ERR. From the next step on its queues are flushed, in order.
func (sh *queues) SetError(q *object.QP) {
	if q.Attr.State != control.StateERR && q.Attr.State != control.StateRST {
		sh.SetState(q, control.StateERR)
	}
}

// Unstall ends the stall of q, if q has one. The last queue of the list takes the place of q.
func (sh *queues) Unstall(q *object.QP) {
	if q.Stall.Kind == object.NoStall {
		return
	}
	c := q.Client
	last := len(c.Sched.Stalled) - 1
	other := c.Sched.Stalled[last]
	c.Sched.Stalled[q.StalledIndex], other.StalledIndex = other, q.StalledIndex
	c.Sched.Stalled[last], c.Sched.Stalled = nil, c.Sched.Stalled[:last]
	c.Shard.Stalled--
	if last == 0 {
		c.Shard.Stallers.Remove(c)
	}
	q.Stall = object.Stall{}
	sh.MarkWarm(q)
}

// StallFor puts q on the list of stalled queues.
func (sh *queues) StallFor(q *object.QP, s object.Stall) {
	c := q.Client
	q.StalledIndex = int32(len(c.Sched.Stalled))
	q.Stall = s
	c.Sched.Stalled = append(c.Sched.Stalled, q)
	c.Shard.Stalled++
	c.Shard.Stallers.Add(c)
}

// find looks for the queue pair that q is connected to, and reports whether q may send to that queue pair.
func (sh *queues) find(q *object.QP) bool {
	if q.Transport == control.QPTypeDCI {
		return sh.FindTarget(q)
	}
	p := sh.BoundPeer(q)
	if !q.Connected(p) {
		return false
	}
	q.Conn.Peer = p
	return true
}
