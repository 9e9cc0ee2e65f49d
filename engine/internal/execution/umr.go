//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/umr"
	"github.com/nicless/nicless/wqe"
)

// Offsets of the parts of a UMR.
const (
	umrCtrlOffset    = wqe.CtrlSize
	umrContextOffset = umrCtrlOffset + wqe.UMRCtrlSize
	umrListOffset    = umrContextOffset + wqe.MkeyContextSize
)

// checkUMR checks a UMR (user-mode memory registration) and performs the UMR: it binds or closes a window,
// or fills or empties a list. A fence of the UMR need not wait, because all earlier work requests of the
// queue have been executed. Transfers of other queues that use the key are checked again.
func (sh *requester) checkUMR(q *object.QP, j *object.Job) object.Verdict {
	end := j.Head.DS() * wqe.UnitSize
	if q.TooShort(j, wqe.OpUMR.Info()) {
		return sh.badSize(q, j, 0)
	}
	ctrl := wqe.ParseUMRCtrl((*[wqe.UMRCtrlSize]byte)(sh.Scratch.WQE[umrCtrlOffset:]))
	ctx := wqe.ParseMkeyContext((*[wqe.MkeyContextSize]byte)(sh.Scratch.WQE[umrContextOffset:]))
	listEnd := umrListOffset + int(ctrl.KLMOctowords)*wqe.KLMSize
	if ctrl.Flags&wqe.UMRInline != 0 && listEnd > end {
		sh.Explain(q, codes.UMRList, "list of %d units ends at byte %d of a WQE of %d", ctrl.KLMOctowords, listEnd, end)
		return sh.Fail(q, j, cqe.LocalQPOp)
	}
	k := sh.Keys.FindIndex(j.Head.Imm())
	if why := sh.umrTarget(q, k, j.Head.Imm(), ctrl); why != "" {
		return sh.badBind(q, j, why)
	}
	c := umr.Change{Key: k.Key, Access: k.Access, Base: k.Base, Size: k.Size, List: sh.Scratch.Runs[:0]}
	var list []byte
	if ctrl.Flags&wqe.UMRInline != 0 {
		list = sh.Scratch.WQE[umrListOffset:listEnd]
	}
	if why := c.Plan(sh.Device, q, k, ctrl, ctx, list); why != "" {
		return sh.badBind(q, j, why)
	}
	if b, m := c.Beyond, c.Parent; b.N > 0 {
		sh.Explain(q, codes.Bind, "UMR of key %#08x: %d bytes at %#x are not all in the memory, %d bytes at %#x; access outside is refused",
			c.Key, b.N, b.Addr, m.Size, m.Base)
	}
	sh.apply(k, &c)
	sh.Sched.Effort += UMRCost + len(c.List)*object.PieceCost
	return object.Accepted
}

// UMRCost is how many bytes of a visit's budget one UMR uses up. The entries of its list are
// counted separately.
const UMRCost = 2048

// umrTarget returns why a UMR of q that names the key may not change k. k is the Mkey with the index of the
// key; nil if there is none. If the UMR may change k, umrTarget returns an empty string.
func (sh *requester) umrTarget(q *object.QP, k *object.Mkey, key uint32, ctrl wqe.UMRCtrl) (why string) {
	switch {
	case k == nil || k.Client != q.Client:
		return "no such key"
	case k.Window == nil && k.Room == 0:
		return "the key is of registered memory, which a UMR does not change"
	case k.Domain() != q.PD:
		return "the key belongs to another protection domain"
	// The variant of a free key need not match. An invalidation has set it to 0 without notice to
	// the client, and rdma-core binds with the rkey that the window had before.
	case !k.Free && k.Key != key:
		return "the variant of the key is stale"
	case ctrl.Flags&wqe.UMRCheckFree != 0 && !k.Free:
		return "the key is in use (CHECK_FREE)"
	case ctrl.Flags&wqe.UMRCheckQPN == 0 || k.Window == nil || k.Window.Kind != 2:
	case k.Free: // its QPN is that of nobody, from its allocation or from what has freed it
		return "the window is not bound (CHECK_QPN)"
	case k.Window.Serial != q.Serial:
		return "the window belongs to another queue pair (CHECK_QPN)"
	}
	return ""
}

// apply stores the values of c in the key k. Transfers of other queues that use k are checked again.
func (sh *requester) apply(k *object.Mkey, c *umr.Change) {
	sh.InvalidateJobs(k)
	sh.Keys.Rekey(k, c.Key)
	k.Access, k.Base, k.Size, k.Free = c.Access, c.Base, c.Size, c.Free
	k.Mem, k.Process, k.From = c.Mem, c.Process, c.From
	k.List, k.PerRound, k.Rounds = append(k.List[:0], c.List...), c.PerRound, c.Rounds
	if k.Window != nil {
		k.Window.QPN, k.Window.Serial = c.QPN, c.Serial
		k.Window.Bind(c.Parent)
	}
	if c.Free {
		k.Release()
	}
}

// badBind explains why the UMR cannot be performed, and fails the WQE.
func (sh *requester) badBind(q *object.QP, j *object.Job, why string) object.Verdict {
	sh.Explain(q, codes.Bind, "UMR of key %#08x: %s", j.Head.Imm(), why)
	return sh.Fail(q, j, cqe.MWBind)
}
