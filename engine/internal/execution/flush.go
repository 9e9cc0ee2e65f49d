//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// requesterError writes the error completion of the WQE at the head of q.
func (sh *queues) requesterError(q *object.QP, h object.Head, s cqe.Syndrome) {
	if h.CE() == wqe.CEFirstError && q.Failed {
		return
	}
	q.Failed = true
	if !sh.CompleteError(q.SQ.CQ, q.UIDX, s, cqe.MakeTail(q.Num, uint8(h.Opcode()), uint16(q.SQ.Done), 0,
		cqe.MakeOpOwn(cqe.ReqErr, cqe.FormatPlain, false, 0))) {
		sh.Overrun(q.SQ.CQ)
	}
}

// receiveError completes the next receive of p's own receive queue with syndrome s.
func (sh *queues) receiveError(p *object.QP, s cqe.Syndrome) {
	ok := sh.CompleteError(p.RQ.CQ, p.UIDX, s, object.ResponderTail(p.Num, uint16(p.RQ.Done), cqe.RespErr))
	p.RQ.Done++
	if !ok {
		sh.Overrun(p.RQ.CQ)
	}
}

// Flush completes WQEs of a QP in error, which have n blocks, with error completions, in order and within the
// budget of a step. It flushes WQEs that were announced before the error and WQEs announced since, and also
// unsignaled WQEs. Then it flushes receives.
func (sh *queues) Flush(q *object.QP, n uint16) (done int) {
	for ; n > 0 && done < sh.Settings.Burst; done++ {
		if !sh.SnapshotHead(q) {
			break
		}
		blocks := min(max(sh.Scratch.Job.Blocks, 1), int(n))
		s := cqe.Flush
		if q.Faulted != 0 {
			s, q.Faulted = q.Faulted, 0
		}
		sh.requesterError(q, sh.Scratch.Job.Head, s)
		q.SQ.Done += uint64(blocks)
		n -= uint16(blocks)
	}
	if q.RQ.SRQ != nil || q.Attr.State == control.StateSQE {
		return done // receives of an SRQ stay in it, and SQE stops the send queue only
	}
	for n := q.Posted(); n > 0 && done < sh.Settings.Burst; done++ {
		sh.receiveError(q, cqe.Flush)
		n--
	}
	return done
}

// SnapshotHead copies the next WQE and puts its control segment into the scratch job, so
// that an error can be reported for it. It returns false when there is no next WQE.
func (sh *queues) SnapshotHead(q *object.QP) bool {
	if sh.Pending(q) == 0 {
		return false
	}
	sh.Snapshot(q)
	sh.Scratch.Job.Head = object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	sh.Scratch.Job.Blocks = sh.Scratch.Job.Head.Blocks()
	return true
}

// Fail completes the WQE at the head of q with an error, even if the WQE asks for no completion, and puts q
// into error (see sendError), or only the stream of the WQE (see FailStream).
func (sh *queues) Fail(q *object.QP, j *object.Job, s cqe.Syndrome) object.Verdict {
	if sh.Trial {
		return object.Waiting
	}
	if q.Wire != nil {
		sh.Links.RewindQueue(q) // later messages are flushed
	}
	q.Client.Count[control.CounterWQEs]++
	q.SQ.WQEs++
	q.Client.Count[control.CounterFailed]++
	if q.Watched != 0 {
		sh.RecordFail(q, j.Blocks, s)
	}
	sh.Carry(q.Client, reason.Place{Queue: q.Num, Index: uint16(q.SQ.Done)}, s)
	sh.requesterError(q, j.Head, s)
	// A WQE may claim more blocks than were announced. Then only the announced blocks count
	// as its own, so that the flush begins at the first block of the next WQE.
	q.SQ.Done += uint64(min(max(j.Blocks, 1), max(int(sh.Pending(q)), 1)))
	sh.ReturnReceive(j)
	if q.FailStream(j.Head) {
		sh.EndJob(q) // a long transfer ends with its WQE; sendError does the same
	} else {
		sh.sendError(q)
	}
	sh.NewFault()
	return object.Failed
}

// Snapshot copies the first block of the next WQE to private memory. From then on only the
// copy is read, because the client could change the ring.
func (sh *queues) Snapshot(q *object.QP) {
	*(*shm.Block)(sh.Scratch.WQE[:]) = *q.SQ.Blocks.At(q.SQ.Done)
}

// sendError puts q into error because of q's own work request. A UD queue pair goes to
// SQE instead, in which it still receives.
func (sh *queues) sendError(q *object.QP) {
	if q.Transport == control.QPTypeUD && q.Attr.State == control.StateRTS {
		sh.SetState(q, control.StateSQE)
		return
	}
	sh.SetError(q)
}
