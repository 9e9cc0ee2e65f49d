//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// Check checks the WQE of the snapshot and fills sh.Scratch.Job with the work to do. n is
// the number of blocks that are announced.
//
// Local keys are checked before the request, because a NIC gathers before it sends. The keys of the place
// for an answer are an exception (postpone).
func (sh *requester) Check(q *object.QP, n uint16) object.Verdict {
	j := sh.Scratch.Job
	h := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	j.Reset(h)
	if j.Blocks != 1 {
		if j.Blocks == 0 || j.Blocks > int(n) {
			return sh.badSize(q, j, n)
		}
		for i := 1; i < j.Blocks; i++ {
			*(*shm.Block)(sh.Scratch.WQE[i*wqe.BlockSize:]) = *q.SQ.Blocks.At(q.SQ.Done + uint64(i))
		}
	}
	if q.Signed && wqe.Sign(sh.Scratch.WQE[:h.DS()*wqe.UnitSize]) != h.Signature() {
		return sh.badSignature(q, j)
	}
	op := h.Opcode()
	if op > 63 || q.Allowed>>(op&63)&1 == 0 {
		return sh.badOpcode(q, j)
	}
	sh.CheckPlace(q, h)
	info := op.Info()
	switch {
	case info.Atomic():
		return sh.checkAtomic(q, j, info)
	case info.Remote != 0 || info.Receive():
		return sh.checkTransfer(q, j, info)
	}
	switch op {
	case wqe.OpUMR:
		return sh.checkUMR(q, j)
	case wqe.OpDump:
		return sh.checkDump(q, j)
	case wqe.OpMMO:
		return sh.checkMMO(q, j)
	case wqe.OpWait:
		return sh.checkWait(q, j)
	case wqe.OpSendEn:
		return sh.checkSendEnable(q, j)
	case wqe.OpNop:
		return object.Accepted
	}
	return sh.badOpcode(q, j)
}

// checkTransfer checks a SEND, a WRITE or a READ.
func (sh *requester) checkTransfer(q *object.QP, j *object.Job, info *wqe.Info) object.Verdict {
	if q.TooShort(j, info) {
		return sh.badSize(q, j, 0)
	}
	data := wqe.CtrlSize
	switch {
	case q.Transport != control.QPTypeRC:
		var v object.Verdict
		if data, v = sh.addressed(q, j, info); v != object.Accepted {
			return v
		}
		if info.Raddr {
			sh.parseRaddr(j, data)
			data += wqe.RaddrSize
		}
	case info.Raddr:
		sh.parseRaddr(j, wqe.CtrlSize)
		data += wqe.RaddrSize
	}
	near, far := &j.Src, &j.Dst
	if info.Reads {
		near, far = far, near
	}
	if v := sh.gather(q, j, near, data, j.Head.DS()*wqe.UnitSize, uint32(info.Local)); v != object.Accepted {
		return v
	}
	if info.Reads {
		j.CarryResult(q)
	}
	return sh.request(q, j, info, far)
}

// addressed returns where the segments after the address segment begin. It puts the address
// segment of an XRC message into the request, and reads that of a DC message. That of a datagram is read
// when the datagram is sent.
func (sh *requester) addressed(q *object.QP, j *object.Job, info *wqe.Info) (data int, v object.Verdict) {
	switch q.Transport {
	case control.QPTypeUD:
		return sh.addressEnd(q, j, info)
	case control.QPTypeXRC:
		j.Request.SRQN = wqe.ParseXRC((*[wqe.XRCSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:])).SRQN & 0xffffff
		return wqe.CtrlSize + wqe.XRCSize, object.Accepted
	case control.QPTypeDCI:
		return sh.readAddress(q, j, info)
	}
	return wqe.CtrlSize, object.Accepted
}
