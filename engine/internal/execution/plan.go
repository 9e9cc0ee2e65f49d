//go:build linux && (amd64 || arm64)

package execution

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A change is the change of a key that a UMR requests. The whole change is checked before any part
// of it is made.
type change struct {
	key    uint32 // new key: the same index, perhaps another variant
	free   bool
	access uint32
	base   uint64
	size   uint64
	qpn    uint32
	serial uint64 // serial of the queue pair that requests it

	// Only if the key is a window.
	parent  *object.Mkey
	mem     []byte
	process *process.Process
	from    uint64

	// Only if the key is a list. The array behind list is sh.Scratch.Runs.
	list             []object.Run
	perRound, rounds uint64
}

// The mask of a UMR names what the UMR changes. umrChanges are the bits that this device
// acts on; with MaskLocalRead, the UMR may only allow local reading, which is always allowed
// here. umrHarmless is a bit that it ignores, because reads need no fence before them. The
// other bits name things that hardware can change and that this device does not have.
const (
	umrChanges = wqe.MaskLen | wqe.MaskStartAddr | wqe.MaskMkey | wqe.MaskQPN | wqe.MaskFree |
		wqe.MaskLocalRead | wqe.MaskLocalWrite | wqe.MaskRemoteRead | wqe.MaskRemoteWrite | wqe.MaskAtomic
	umrHarmless = wqe.MaskSmallFence
)

// unchangeable returns the name of something in mask that this device cannot change. If there is no
// such thing, it returns an empty string.
func unchangeable(mask uint64) string {
	mask &^= umrChanges | umrHarmless
	switch mask {
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

// plan fills c with the change of k that the UMR requests. If the change cannot be made, plan
// returns the reason.
func (sh *requester) plan(q *object.QP, k *object.Mkey, c *change, ctrl wqe.UMRCtrl,
	ctx wqe.MkeyContext) string {
	mask := ctrl.MkeyMask
	if what := unchangeable(mask); what != "" {
		return "its mask asks to change " + what + ", which this device does not"
	}
	if mask&wqe.MaskLocalRead != 0 && ctx.Access&wqe.AccessLocalRead == 0 {
		return "it takes away local reading, which is always allowed here"
	}
	if mask&wqe.MaskMkey != 0 {
		c.key = k.Key&^0xff | ctx.QPNMkey&0xff
	}
	if mask&wqe.MaskFree != 0 && ctx.Free&wqe.MkeyFree != 0 {
		c.free = true
		return ""
	}
	for _, r := range wqe.MkeyRights {
		if mask&r.Mask != 0 {
			c.access &^= uint32(r.Right)
			if ctx.Access&r.Access != 0 {
				c.access |= uint32(r.Right)
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
	list := sh.Scratch.WQE[umrListOffset:][:int(ctrl.KLMOctowords)*wqe.KLMSize]
	if k.Window != nil {
		c.qpn, c.serial = ctx.QPNMkey>>8, q.Serial
		if k.Window.Kind == 2 && c.qpn != q.Num {
			return "a window of type 2 must be bound to the queue pair that binds it"
		}
		return sh.planWindow(q, c, list)
	}
	if len(list) == 0 && mask&wqe.MaskLen == 0 { // only attributes
		c.list, c.perRound, c.rounds = k.List, k.PerRound, k.Rounds
		return ""
	}
	return sh.planList(k, c, list)
}

// planWindow plans the binding of a window to the memory of one list entry.
func (sh *requester) planWindow(q *object.QP, c *change, list []byte) string {
	if len(list) < wqe.KLMSize {
		return "a window needs one list entry"
	}
	entry := wqe.ParseKLM((*[wqe.KLMSize]byte)(list))
	m := sh.Keys.Find(entry.MKey)
	switch {
	case m == nil || m.Region == nil || m.Client != q.Client:
		return "its memory is not registered under the key of the list entry"
	case m.PD != q.PD:
		return "its memory belongs to another protection domain"
	case m.Access&control.AccessMWBind == 0:
		return "its memory was registered without the right to bind windows"
	case c.access&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 &&
		m.Access&control.AccessLocalWrite == 0:
		return "it would allow writing to memory that its owner may not write"
	}
	if !m.Holds(entry.Addr, c.size) {
		return "its range is outside the memory of the list entry"
	}
	s := m.Stretch(entry.Addr, c.size)
	c.parent, c.mem, c.process, c.from = m, s.Mem, s.Process, m.From+(entry.Addr-m.Base)
	return ""
}

// planList plans the runs of a list key, plain or interleaved.
func (sh *requester) planList(k *object.Mkey, c *change, list []byte) string {
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
		c.list = append(c.list, object.Run{Key: entry.MKey, Addr: entry.Addr, N: uint64(entry.ByteCount)})
		c.perRound += uint64(entry.ByteCount)
	}
	return checkList(k, c)
}

func planInterleaved(k *object.Mkey, c *change, b wqe.RepeatBlock, list []byte) string {
	if int(b.NumEntries)*wqe.RepeatEntrySize > len(list) || b.RepeatCount == 0 {
		return "its repeat block has more entries than the list, or repeats 0 times"
	}
	c.rounds = uint64(b.RepeatCount)
	for i := range int(b.NumEntries) {
		entry := wqe.ParseRepeatEntry((*[wqe.RepeatEntrySize]byte)(list[i*wqe.RepeatEntrySize:]))
		if entry.ByteCount == 0 {
			continue
		}
		c.list = append(c.list, object.Run{Key: entry.MKey, Addr: entry.Addr, N: uint64(entry.ByteCount),
			Stride: uint64(entry.Stride)})
		c.perRound += uint64(entry.ByteCount)
	}
	return checkList(k, c)
}

func checkList(k *object.Mkey, c *change) string {
	hi, all := bits.Mul64(c.perRound, c.rounds)
	switch {
	case len(c.list) > k.Room:
		return "its list has more entries than the key was made for"
	case hi != 0 || c.size > all:
		return "it is longer than the entries of its list together"
	}
	return ""
}
