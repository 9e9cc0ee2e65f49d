//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/wqe"
)

// Each of these functions explains a fault of a WQE, fails the WQE, and returns failed.

func (sh *requester) badSize(q *qp, j *job, n uint16) verdict {
	switch {
	case j.blocks == 0:
		sh.explain(q, codes.DSZero, "ds is 0; a WQE has at least its control segment, ds 1")
	case n > 0:
		sh.explain(q, codes.DSPastRecord, "ds %d is %d blocks, but the record announces %d; ring after the whole WQE is written", j.head.ds(), j.blocks, n)
	default:
		sh.explain(q, codes.DSSmall, "ds %d is too small for %v, which needs at least %d", j.head.ds(), j.head.opcode(), j.head.opcode().Info().LeastUnits(wqe.Transport(q.transport)))
	}
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) badSignature(q *qp, j *job) verdict {
	sh.explain(q, codes.Signature, "signature %#02x, the bytes give %#02x", j.head.signature(), wqe.Sign(sh.scratch.wqe[:j.head.ds()*wqe.UnitSize]))
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) badOpcode(q *qp, j *job) verdict {
	sh.explain(q, codes.Opcode, "opcode %v (%#02x) is not executed by this device on %s", j.head.opcode(), uint8(j.head.opcode()), transports[q.transport].name)
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) badInline(q *qp, j *job, size, off, end int) verdict {
	if off > end {
		sh.explain(q, codes.InlineRange, "inline data of %d bytes ends at byte %d of a WQE of %d (ds %d)", size, off, end, j.head.ds())
	} else {
		sh.explain(q, codes.InlineRead, "%v with inline data; there is nowhere to put the answer", j.head.opcode())
	}
	return sh.fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) tooLong(q *qp, j *job, total, most uint64) verdict {
	sh.explain(q, codes.MessageSize, "message of %d bytes; at most %d are possible", total, most)
	return sh.fail(q, j, cqe.LocalLength)
}

func (sh *requester) badLocal(q *qp, j *job, d wqe.Data, need uint32) verdict {
	if j.tooManyUnits(d) {
		sh.explain(q, codes.DSLarge, "%v: ds %d counts a unit that is no data segment (byte_count %#x, lkey %#08x)", j.head.opcode(), j.head.ds(), d.ByteCount, d.LKey)
	} else {
		why := sh.whyNoAccess(localUse(d, need, q, q.pd))
		sh.explain(q, why.code, "%v: %s", j.head.opcode(), why)
	}
	return sh.fail(q, j, cqe.LocalProtection)
}

// tooManyUnits reports whether the bad segment d is probably no data segment at all,
// because ds is too large. Either d is all zeros and comes after other segments, or d comes
// after the only result segment of an atomic.
func (j *job) tooManyUnits(d wqe.Data) bool {
	switch op := j.head.opcode(); {
	case op == wqe.OpMMO:
		return false
	case op.Info().Atomic():
		return j.dst.n > 0
	}
	return d == wqe.Data{} && j.src.n+j.dst.n > 0
}
