//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
)

// Streams of a DCI. Each WQE says which stream it is of. A fault ends the stream of its WQE, and
// the queue pair only when as many streams have failed as it tolerates. A queue pair without
// streams tolerates one.

// stream returns the stream of a WQE (dci_stream_channel_id).
func (h head) stream() uint16 { return h.second.Stream() }

// failStream is called when a WQE of q has failed. It returns true if only the stream of the WQE
// has failed, and q goes on.
func (q *qp) failStream(h head) bool {
	if q.dc == nil || q.dc.tolerance <= 1 || q.attr.State != control.StateRTS {
		return false
	}
	if !slices.Contains(q.dc.errored, h.stream()) {
		q.dc.errored = append(q.dc.errored, h.stream())
	}
	return len(q.dc.errored) < q.dc.tolerance
}

// flushStream flushes the WQE of j if its stream has failed.
func (sh *requester) flushStream(q *qp, j *job) verdict {
	if len(q.dc.errored) == 0 || !slices.Contains(q.dc.errored, j.head.stream()) {
		return accepted
	}
	sh.explain(q, codes.DCStream, "stream %d of this DCI has failed; the work request is flushed", j.head.stream())
	sh.requesterError(q, j.head, cqe.Flush)
	q.sq.done += uint64(j.blocks)
	return failed
}

// ResetStream ends the failure of a stream of a DCI, which is in RTS.
func (c *caller) ResetStream(qpn uint32, stream uint16) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.do(makesWork, "reset_stream", func() {
		q := c.qps[qpn]
		switch {
		case q == nil:
			err = notFound("QP", qpn)
			return
		case q.transport != control.QPTypeDCI:
			err = control.Errorf(control.CodeInvalid, "QP %#06x is no DCI; it has no streams", qpn)
			return
		case q.attr.State != control.StateRTS:
			err = control.Errorf(control.CodeState, "QP %#06x: in state %s, not RTS", qpn, stateName(q.attr.State))
			return
		}
		i := slices.Index(q.dc.errored, stream)
		if i < 0 {
			err = control.Errorf(control.CodeState, "QP %#06x: stream %d has not failed", qpn, stream)
			return
		}
		q.dc.errored = slices.Delete(q.dc.errored, i, i+1)
	})
	return err
}
