//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/control"
)

// MemoryFault turns a fault of memory during the work of q into an error of q.
func (sh *queues) MemoryFault(q *object.QP, addr uintptr) {
	if sh.blamesFollower(q) {
		return
	}
	if q.Attr.State == control.StateERR {
		// The flush of q has faulted, so no completion can report the fault.
		sh.ExplainQueue(q, codes.MemoryFault, object.NoPage+"; the queue pair is given up", addr)
		sh.SetState(q, control.StateRST)
		return
	}
	sh.ExplainQueue(q, codes.MemoryFault, object.NoPage+"; the work request fails", addr)
	q.Faulted = cqe.RemoteOperation
	if q.Client.Holds(uint64(addr)) {
		q.Faulted = cqe.LocalProtection
		if p := sh.peerOf(q); p != nil && sh.Holds(p.Client.Shard) && sh.receivesInto(q, p, addr) {
			sh.Remember(report.Subject{Client: p.Client, Number: p.Num, Kind: control.OfReceive,
				Index: uint16(p.RQ.Done)}, codes.MemoryFault, object.NoPage+"; completions of its receives are lost", addr)
			sh.SetError(p) // it has used receives whose completions are lost
		}
	} else if p := sh.peerOf(q); p != nil && sh.Holds(p.Client.Shard) {
		sh.StopsBecause(p, codes.MemoryFault, object.NoPage+", for a request of peer QP %#06x", addr, q.Num)
		sh.SetError(p)
		if !q.Reliable() {
			// The sender is not at fault. Its message is checked again, and then finds no peer.
			q.Faulted = 0
			sh.EndJob(q)
			return
		}
	}
	sh.SetError(q) // the flush reports it
}

// receivesInto reports whether addr is in the completion queue of the receives that q's work
// request has used at its peer p.
func (sh *queues) receivesInto(q, p *object.QP, addr uintptr) bool {
	if p.Target() == nil {
		return p.RQ.CQ.Has(addr)
	}
	j := q.Job
	if j == nil {
		j = sh.Scratch.Job
	}
	return j.SRQ != nil && j.SRQ.CQ.Has(addr)
}

// peerOf returns the peer that q was sending to when a fault of memory happened.
func (sh *queues) peerOf(q *object.QP) *object.QP {
	if q.Job != nil {
		return q.Job.Peer
	}
	return q.Conn.Peer
}
