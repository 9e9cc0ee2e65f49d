package engine

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Where the parts of a UMR lie, and how large it is at least.
const (
	umrCtrlOffset    = wqe.CtrlSize
	umrContextOffset = umrCtrlOffset + wqe.UMRCtrlSize
	umrListOffset    = umrContextOffset + wqe.MkeyContextSize
)

// A change is what a UMR asks of a key, judged before anything is changed.
type change struct {
	key    uint32 // from now on: same index, perhaps another variant
	free   bool
	access uint32
	base   uint64
	size   uint64
	qpn    uint32

	// Of a window.
	parent *mkey
	mem    []byte

	// Of a list, in scratch.
	list             []run
	perRound, rounds uint64
}

// judgeUMR judges a user-mode registration and performs it: a window is bound
// or closed, or a list is filled or emptied. Work requests before it have been
// executed, so fences have nothing to wait for; transfers of other queues that
// go through the key are judged anew.
func (e *Engine) judgeUMR(q *qp, j *job) bool {
	end := j.head.ds() * wqe.UnitSize
	if end < umrListOffset {
		return e.badSize(q, j, 0)
	}
	ctrl := wqe.ParseUMRCtrl((*[wqe.UMRCtrlSize]byte)(e.wqe[umrCtrlOffset:]))
	ctx := wqe.ParseMkeyContext((*[wqe.MkeyContextSize]byte)(e.wqe[umrContextOffset:]))
	if listEnd := umrListOffset + int(ctrl.KLMOctowords)*wqe.KLMSize; ctrl.Flags&wqe.UMRInline != 0 && listEnd > end {
		e.explain(q, codeUMRList, "list of %d units ends at byte %d of a WQE of %d", ctrl.KLMOctowords, listEnd, end)
		return e.fail(q, j, cqe.LocalQPOp)
	}
	k := e.keys.findIndex(j.head.imm())
	if why := e.umrTarget(q, k, j.head.imm(), ctrl); why != "" {
		return e.badBind(q, j, why)
	}
	c := change{key: k.key, access: k.access, base: k.base, size: k.size, list: e.runs[:0]}
	if why := e.plan(q, k, &c, ctrl, ctx); why != "" {
		return e.badBind(q, j, why)
	}
	e.apply(k, &c)
	e.effort += umrCost + len(c.list)*pieceCost
	return true
}

// umrCost is what a UMR costs of a budget of bytes, beside the entries of its
// list.
const umrCost = 2048

// umrTarget says why a UMR may not change k, or nothing.
func (e *Engine) umrTarget(q *qp, k *mkey, key uint32, ctrl wqe.UMRCtrl) string {
	switch {
	case k == nil || k.client != q.client:
		return "no such key"
	case k.window == nil && k.room == 0:
		return "the key is of registered memory, which a UMR does not change"
	case k.domain() != q.pd:
		return "the key belongs to another protection domain"
	// Of a free key the variant may be any: an invalidation has set it to 0,
	// which its client does not learn (rdma-core binds with the rkey that it had).
	case !k.free && k.key != key:
		return "the variant of the key is stale"
	case ctrl.Flags&wqe.UMRCheckFree != 0 && !k.free:
		return "the key is in use (CHECK_FREE)"
	case ctrl.Flags&wqe.UMRCheckQPN != 0 && k.window != nil && !k.free && k.window.kind == 2 && k.window.qpn != q.num:
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

// umrRights pairs the access bits of an mkey context with ours and with their
// bits of the mask.
var umrRights = [...]struct {
	mkey   uint8
	mask   uint64
	access uint32
}{
	{wqe.AccessLocalWrite, wqe.MaskLocalWrite, control.AccessLocalWrite},
	{wqe.AccessRemoteRead, wqe.MaskRemoteRead, control.AccessRemoteRead},
	{wqe.AccessRemoteWrite, wqe.MaskRemoteWrite, control.AccessRemoteWrite},
	{wqe.AccessAtomic, wqe.MaskAtomic, control.AccessRemoteAtomic},
}

// A UMR asks by its mask for what it means to change. Local reading is always
// allowed here, and reads need no fence before them; the rest of what hardware
// changes, this device does not have.
const (
	umrChanges = wqe.MaskLen | wqe.MaskStartAddr | wqe.MaskMkey | wqe.MaskQPN | wqe.MaskFree |
		wqe.MaskLocalRead | wqe.MaskLocalWrite | wqe.MaskRemoteRead | wqe.MaskRemoteWrite | wqe.MaskAtomic
	umrHarmless = wqe.MaskSmallFence
)

// unchangeable says what else a mask asks for, or nothing.
func unchangeable(mask uint64) string {
	switch mask &^= umrChanges | umrHarmless; mask {
	case 0:
		return ""
	case wqe.MaskPageSize:
		return "the page size"
	case wqe.MaskPD:
		return "the protection domain"
	case wqe.MaskRemoteInval:
		return "remote invalidation"
	case wqe.MaskSigErrCount:
		return "the count of signature errors"
	case wqe.MaskBSFEnable:
		return "signatures (bsf)"
	}
	return fmt.Sprintf("bits %#x", mask)
}

// plan turns the UMR into a change of k, or says why it cannot be made.
func (e *Engine) plan(q *qp, k *mkey, c *change, ctrl wqe.UMRCtrl, ctx wqe.MkeyContext) string {
	mask := ctrl.MkeyMask
	if what := unchangeable(mask); what != "" {
		return "its mask asks to change " + what + ", which this device does not"
	}
	if mask&wqe.MaskLocalRead != 0 && ctx.Access&wqe.AccessLocalRead == 0 {
		return "it takes away local reading, which is always allowed here"
	}
	if mask&wqe.MaskMkey != 0 {
		c.key = k.key&^0xff | ctx.QPNMkey&0xff
	}
	if mask&wqe.MaskFree != 0 && ctx.Free&wqe.MkeyFree != 0 {
		c.free = true
		return ""
	}
	for _, r := range umrRights {
		if mask&r.mask != 0 {
			c.access &^= r.access
			if ctx.Access&r.mkey != 0 {
				c.access |= r.access
			}
		}
	}
	if mask&wqe.MaskStartAddr != 0 {
		c.base = ctx.StartAddr
	}
	if mask&wqe.MaskLen != 0 {
		c.size = ctx.Len
	}
	if c.size > 0 && c.base+c.size-1 < c.base {
		return "its range passes the end of the address space"
	}
	if ctrl.Flags&wqe.UMRInline == 0 {
		return "without a list in the WQE (INLINE) nothing can be bound"
	}
	list := e.wqe[umrListOffset:][:int(ctrl.KLMOctowords)*wqe.KLMSize]
	if k.window != nil {
		c.qpn = ctx.QPNMkey >> 8
		if k.window.kind == 2 && c.qpn != q.num {
			return "a window of type 2 must be bound to the queue pair that binds it"
		}
		return e.planWindow(q, c, list)
	}
	if len(list) == 0 && mask&wqe.MaskLen == 0 { // only attributes
		c.list, c.perRound, c.rounds = k.list, k.perRound, k.rounds
		return ""
	}
	return e.planList(k, c, list)
}

// planWindow plans the binding of a window to the memory of one list entry.
func (e *Engine) planWindow(q *qp, c *change, list []byte) string {
	if len(list) < wqe.KLMSize {
		return "a window needs one list entry"
	}
	entry := wqe.ParseKLM((*[wqe.KLMSize]byte)(list))
	m := e.keys.find(entry.MKey)
	switch {
	case m == nil || m.region == nil || m.client != q.client:
		return "its memory is not registered under the key of the list entry"
	case m.pd != q.pd:
		return "its memory belongs to another protection domain"
	case m.access&control.AccessMWBind == 0:
		return "its memory was registered without the right to bind windows"
	case c.access&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 && m.access&control.AccessLocalWrite == 0:
		return "it would allow writing to memory that its owner may not write"
	}
	mem, ok := m.span(entry.Addr, c.size)
	if !ok {
		return "its range is outside the memory of the list entry"
	}
	c.parent, c.mem = m, mem
	return ""
}

// planList plans the runs of a list key, plain or interleaved.
func (e *Engine) planList(k *mkey, c *change, list []byte) string {
	c.rounds = 1
	if len(list) >= wqe.RepeatBlockSize {
		if b := wqe.ParseRepeatBlock((*[wqe.RepeatBlockSize]byte)(list)); b.Op == wqe.RepeatOp {
			return planInterleaved(k, c, b, list[wqe.RepeatBlockSize:])
		}
	}
	for ; len(list) >= wqe.KLMSize; list = list[wqe.KLMSize:] {
		entry := wqe.ParseKLM((*[wqe.KLMSize]byte)(list))
		if entry.ByteCount == 0 {
			continue // padding
		}
		c.list = append(c.list, run{key: entry.MKey, addr: entry.Addr, n: uint64(entry.ByteCount)})
		c.perRound += uint64(entry.ByteCount)
	}
	return checkList(k, c)
}

func planInterleaved(k *mkey, c *change, b wqe.RepeatBlock, list []byte) string {
	if int(b.NumEntries)*wqe.RepeatEntrySize > len(list) || b.RepeatCount == 0 {
		return "its repeat block has more entries than the list, or repeats 0 times"
	}
	c.rounds = uint64(b.RepeatCount)
	for i := range int(b.NumEntries) {
		entry := wqe.ParseRepeatEntry((*[wqe.RepeatEntrySize]byte)(list[i*wqe.RepeatEntrySize:]))
		if entry.ByteCount == 0 {
			continue
		}
		c.list = append(c.list, run{key: entry.MKey, addr: entry.Addr, n: uint64(entry.ByteCount), stride: uint64(entry.Stride)})
		c.perRound += uint64(entry.ByteCount)
	}
	return checkList(k, c)
}

func checkList(k *mkey, c *change) string {
	hi, all := bits.Mul64(c.perRound, c.rounds)
	switch {
	case len(c.list) > k.room:
		return "its list has more entries than the key was made for"
	case hi != 0 || c.size > all:
		return "it is longer than the entries of its list together"
	}
	return ""
}

// apply makes the change. What other queues were doing with the key is judged
// anew.
func (e *Engine) apply(k *mkey, c *change) {
	e.disturb(k)
	e.keys.rekey(k, c.key)
	k.access, k.base, k.size, k.free = c.access, c.base, c.size, c.free
	k.mem, k.list, k.perRound, k.rounds = c.mem, append(k.list[:0], c.list...), c.perRound, c.rounds
	if k.window != nil {
		k.window.qpn = c.qpn
		k.window.lie(c.parent)
	}
	if c.free {
		k.release()
	}
}

// lie puts the window on the memory of another key, or on none.
func (w *window) lie(on *mkey) {
	if w.parent != nil {
		w.parent.windows--
	}
	if w.parent = on; on != nil {
		on.windows++
	}
}

// release closes a window or empties a list: the key gives no access any more.
func (k *mkey) release() {
	k.free, k.mem, k.list, k.size = true, nil, k.list[:0], 0
	if k.window != nil {
		k.window.qpn = 0
		k.window.lie(nil)
	}
}

// disturb has every transfer in the middle of k's memory judged anew before it
// touches another byte.
func (e *Engine) disturb(k *mkey) {
	e.epoch++
	k.changed = e.epoch
}

func (e *Engine) badBind(q *qp, j *job, why string) bool {
	e.explain(q, codeBind, "UMR of key %#08x: %s", j.head.imm(), why)
	return e.fail(q, j, cqe.MWBind)
}

// invalidate closes the window that a SEND_INVAL names, on behalf of the
// responder, and reports whether the sender may do so: only a window of type 2
// that belongs to the responder.
func (e *Engine) invalidate(p *qp, key uint32) bool {
	k := e.keys.find(key)
	if k == nil || k.window == nil || k.free || k.window.kind != 2 || k.window.qpn != p.num || k.window.pd != p.pd {
		return false
	}
	e.disturb(k)
	k.release()
	return true
}
