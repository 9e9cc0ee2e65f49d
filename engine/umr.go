//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/wqe"
)

// Offsets of the parts of a UMR.
const (
	umrCtrlOffset    = wqe.CtrlSize
	umrContextOffset = umrCtrlOffset + wqe.UMRCtrlSize
	umrListOffset    = umrContextOffset + wqe.MkeyContextSize
)

// judgeUMR judges a user-mode registration and performs it: it binds or closes a window, or
// fills or empties a list. All earlier work requests of the queue have been executed, so
// fences need not wait. Transfers of other queues that use the key are judged again.
func (sh *requester) judgeUMR(q *qp, j *job) verdict {
	end := j.head.ds() * wqe.UnitSize
	if q.tooShort(j, wqe.OpUMR.Info()) {
		return sh.badSize(q, j, 0)
	}
	ctrl := wqe.ParseUMRCtrl((*[wqe.UMRCtrlSize]byte)(sh.scratch.wqe[umrCtrlOffset:]))
	ctx := wqe.ParseMkeyContext((*[wqe.MkeyContextSize]byte)(sh.scratch.wqe[umrContextOffset:]))
	if listEnd := umrListOffset + int(ctrl.KLMOctowords)*wqe.KLMSize; ctrl.Flags&wqe.UMRInline != 0 && listEnd > end {
		sh.explain(q, codes.UMRList, "list of %d units ends at byte %d of a WQE of %d", ctrl.KLMOctowords, listEnd, end)
		return sh.fail(q, j, cqe.LocalQPOp)
	}
	k := sh.keys.findIndex(j.head.imm())
	if why := sh.umrTarget(q, k, j.head.imm(), ctrl); why != "" {
		return sh.badBind(q, j, why)
	}
	c := change{key: k.key, access: k.access, base: k.base, size: k.size, list: sh.scratch.runs[:0]}
	if why := sh.plan(q, k, &c, ctrl, ctx); why != "" {
		return sh.badBind(q, j, why)
	}
	sh.apply(k, &c)
	sh.sched.effort += umrCost + len(c.list)*pieceCost
	return accepted
}

// umrCost is how many bytes of a visit's budget one UMR uses up. The entries of its list are
// counted separately.
const umrCost = 2048

// umrTarget returns why a UMR may not change k, or an empty string.
func (sh *requester) umrTarget(q *qp, k *mkey, key uint32, ctrl wqe.UMRCtrl) string {
	switch {
	case k == nil || k.client != q.client:
		return "no such key"
	case k.window == nil && k.room == 0:
		return "the key is of registered memory, which a UMR does not change"
	case k.domain() != q.pd:
		return "the key belongs to another protection domain"
	// The variant of a free key need not match. An invalidation has set it to 0 without
	// telling the client, and rdma-core binds with the rkey that the window had before.
	case !k.free && k.key != key:
		return "the variant of the key is stale"
	case ctrl.Flags&wqe.UMRCheckFree != 0 && !k.free:
		return "the key is in use (CHECK_FREE)"
	case ctrl.Flags&wqe.UMRCheckQPN != 0 && k.window != nil && !k.free && k.window.kind == 2 && k.window.serial != q.serial:
		return "the window belongs to another queue pair (CHECK_QPN)"
	}
	return ""
}

func (k *mkey) domain() *pd {
	if k.window != nil {
		return k.window.pd
	}
	return k.pd
}

// apply makes the change. Transfers of other queues that use the key are judged again.
func (sh *requester) apply(k *mkey, c *change) {
	sh.invalidateJobs(k)
	sh.keys.rekey(k, c.key)
	k.access, k.base, k.size, k.free = c.access, c.base, c.size, c.free
	k.mem, k.process, k.from = c.mem, c.process, c.from
	k.list, k.perRound, k.rounds = append(k.list[:0], c.list...), c.perRound, c.rounds
	if k.window != nil {
		k.window.qpn, k.window.serial = c.qpn, c.serial
		k.window.attach(c.parent)
	}
	if c.free {
		k.release()
	}
}

// attach binds the window to the memory of the key on. If on is nil, it unbinds the window.
func (w *window) attach(on *mkey) {
	if w.parent != nil {
		w.parent.windows--
	}
	if w.parent = on; on != nil {
		on.windows++
	}
}

// release closes a window or empties a list. From then on the key gives no access.
func (k *mkey) release() {
	k.free, k.mem, k.process, k.list, k.size = true, nil, nil, k.list[:0], 0
	if k.window != nil {
		k.window.qpn, k.window.serial = 0, 0
		k.window.attach(nil)
	}
}

// invalidateJobs makes every transfer that uses k's memory be judged again before the
// transfer touches another byte.
func (sh *mover) invalidateJobs(k *mkey) {
	sh.recallTasks(nil, k, nil)
	k.changed = sh.epoch.Add(1)
}

func (sh *requester) badBind(q *qp, j *job, why string) verdict {
	sh.explain(q, codes.Bind, "UMR of key %#08x: %s", j.head.imm(), why)
	return sh.fail(q, j, cqe.MWBind)
}

// invalidate closes the window or empties the list that a SEND_INVAL names, and reports
// whether the sender may do so. A window must be of type 2 and belong to the responder p; a
// list must allow it. Both must be of the protection domain d.
func (sh *requester) invalidate(p *qp, d *pd, key uint32) bool {
	k := sh.keys.find(key)
	if k == nil || k.free || k.domain() != d || !k.inval && (k.window == nil || k.window.kind != 2 || k.window.serial != p.serial) {
		return false
	}
	sh.invalidateJobs(k)
	k.release()
	return true
}
