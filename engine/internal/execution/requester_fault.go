//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/wqe"
)

// Each of these functions explains a fault of a WQE, fails the WQE, and returns Failed.

func (sh *requester) badSize(q *object.QP, j *object.Job, n uint16) object.Verdict {
	switch {
	case j.Blocks == 0:
		sh.Explain(q, codes.DSZero, "ds is 0; a WQE has at least its control segment, ds 1")
	case n > 0:
		sh.Explain(q, codes.DSPastRecord, "ds %d is %d blocks, but the record announces %d; ring after the whole WQE is written", j.Head.DS(), j.Blocks, n)
	default:
		return sh.tooSmall(q, j, j.Head.Opcode().Info().LeastUnits(wqe.Transport(q.Transport)))
	}
	return sh.Fail(q, j, cqe.LocalQPOp)
}

// tooSmall is badSize for a WQE that has less than the least units.
func (sh *requester) tooSmall(q *object.QP, j *object.Job, least int) object.Verdict {
	sh.Explain(q, codes.DSSmall, "ds %d is too small for %v, which needs at least %d", j.Head.DS(),
		j.Head.Opcode(), least)
	return sh.Fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) badSignature(q *object.QP, j *object.Job) object.Verdict {
	sh.Explain(q, codes.Signature, "signature %#02x, the bytes give %#02x", j.Head.Signature(), wqe.Sign(sh.Scratch.WQE[:j.Head.DS()*wqe.UnitSize]))
	return sh.Fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) badOpcode(q *object.QP, j *object.Job) object.Verdict {
	sh.Explain(q, codes.Opcode, "opcode %v (%#02x) is not executed by this device on %s", j.Head.Opcode(),
		uint8(j.Head.Opcode()), states.Transports[q.Transport].Name)
	return sh.Fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) badInline(q *object.QP, j *object.Job, size, off, end int) object.Verdict {
	if off > end {
		sh.Explain(q, codes.InlineRange, "inline data of %d bytes ends at byte %d of a WQE of %d (ds %d)", size, off, end, j.Head.DS())
	} else {
		sh.Explain(q, codes.InlineRead, "%v with inline data; there is nowhere to put the answer", j.Head.Opcode())
	}
	return sh.Fail(q, j, cqe.LocalQPOp)
}

func (sh *requester) TooLong(q *object.QP, j *object.Job, total, most uint64) object.Verdict {
	sh.Explain(q, codes.MessageSize, "message of %d bytes; at most %d are possible", total, most)
	return sh.Fail(q, j, cqe.LocalLength)
}

func (sh *requester) badLocal(q *object.QP, j *object.Job, d wqe.Data, need uint32) object.Verdict {
	if j.TooManyUnits(d) {
		sh.Explain(q, codes.DSLarge, "%v: ds %d counts a unit that is no data segment (byte_count %#x, lkey %#08x)", j.Head.Opcode(), j.Head.DS(), d.ByteCount, d.LKey)
	} else {
		why := sh.WhyNoAccess(report.LocalUse(d, need, q, q.PD))
		sh.Explain(q, why.Code, "%v: %s", j.Head.Opcode(), why)
	}
	return sh.Fail(q, j, cqe.LocalProtection)
}

// NoPlace fails a READ or an atomic that the responder has answered, because the data segment at byte at of
// the WQE, which is in the scratch, has no place for the answer (postpone).
func (sh *requester) NoPlace(q *object.QP, j *object.Job, at int) object.Verdict {
	d := wqe.ParseData((*[wqe.UnitSize]byte)(sh.Scratch.WQE[at:]))
	return sh.badLocal(q, j, d, uint32(j.Head.Opcode().Info().Local))
}

// Unreachable ends a WQE whose memory could not be reached. If the memory is local, the WQE
// fails as with a bad local key.
func (sh *requester) Unreachable(q *object.QP, j *object.Job, g object.Gap) object.Verdict {
	if j.Peer != nil && g.Source == j.Reads() {
		return sh.answered(q, j, sh.UnreachableHere(q, j, g))
	}
	why := g.Why()
	sh.Explain(q, why.Code, "%v: %s", j.Head.Opcode(), why)
	return sh.Fail(q, j, cqe.LocalProtection)
}
