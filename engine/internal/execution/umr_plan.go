//go:build linux && (amd64 || arm64)

package execution

import (
	"math/bits"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/engine/internal/umr"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A change has the new values of all fields of a key that a UMR may change. The methods plan, planWindow and
// planList fill it and check the whole change. After that, apply (umr.go) stores the values in the key.
type change struct {
	key    uint32 // the new key: the same index, perhaps another variant
	free   bool   // the UMR unbinds the window or empties the list
	access uint32 // new rights: control.Access*
	base   uint64 // address of the first byte, as work requests give it
	size   uint64

	// These fields are for windows.
	qpn     uint32       // number of the queue pair to which the window is bound
	serial  uint64       // serial of the queue pair that executes the UMR
	parent  *object.Mkey // the key of the memory that the window opens
	mem     []byte       // the window's bytes in the device's mapping; nil if they are not mapped
	process *process.Process
	from    uint64 // address of the window's first byte in the client

	// These fields are for lists, and mean what they mean in Mkey. The array behind list is sh.Scratch.Runs.
	list             []object.Run
	perRound, rounds uint64
}

// plan changes c, which has the present values of the key k, as the UMR requests. q is the queue pair that
// executes the UMR. If the change cannot be made, plan returns the reason, otherwise an empty string. The
// functions below return a reason or an empty string, too.
func (sh *requester) plan(q *object.QP, k *object.Mkey, c *change, ctrl wqe.UMRCtrl,
	ctx wqe.MkeyContext) (why string) {
	mask := ctrl.MkeyMask
	if what := umr.Unchangeable(mask); what != "" {
		return "its mask asks to change " + what + ", which this device does not"
	}
	if mask&wqe.MaskLocalRead != 0 && ctx.Access&wqe.AccessLocalRead == 0 {
		return "it takes away local reading, which is always allowed here"
	}
	if mask&wqe.MaskMkey != 0 {
		const variant = 0xff
		c.key = k.Key&^variant | ctx.QPNMkey&variant
	}
	if mask&wqe.MaskFree != 0 && ctx.Free&wqe.MkeyFree != 0 {
		c.free = true
		return ""
	}
	for _, r := range wqe.MkeyRights {
		switch {
		case mask&r.Mask == 0: // the UMR leaves this right as it is
		case ctx.Access&r.Access != 0:
			c.access |= uint32(r.Right)
		default:
			c.access &^= uint32(r.Right)
		}
	}
	if mask&wqe.MaskStartAddr != 0 {
		c.base = ctx.StartAddr
	}
	if mask&wqe.MaskLen != 0 {
		c.size = ctx.Len
	}
	last := c.base + c.size - 1 // address of the last byte
	if c.size > 0 && last < c.base {
		return "its range passes the end of the address space"
	}
	if ctrl.Flags&wqe.UMRInline == 0 {
		return "without a list in the WQE (INLINE) nothing can be bound"
	}
	listEnd := umrListOffset + int(ctrl.KLMOctowords)*wqe.KLMSize // inside the WQE: checkUMR has checked it
	list := sh.Scratch.WQE[umrListOffset:listEnd]
	if k.Window != nil {
		c.qpn, c.serial = ctx.QPNMkey>>8, q.Serial
		if k.Window.Kind == 2 && c.qpn != q.Num {
			return "a window of type 2 must be bound to the queue pair that binds it"
		}
		return sh.planWindow(q, c, list)
	}
	keepEntries := len(list) == 0 && mask&wqe.MaskLen == 0 // the UMR changes other attributes only
	if keepEntries {
		c.list, c.perRound, c.rounds = k.List, k.PerRound, k.Rounds
		return ""
	}
	return sh.planList(k, c, list)
}

// planWindow binds a window to the memory in the first entry of list. The entry gives the key under which
// that memory is registered.
func (sh *requester) planWindow(q *object.QP, c *change, list []byte) (why string) {
	if len(list) < wqe.KLMSize {
		return "a window needs one list entry"
	}
	entry := wqe.ParseKLM((*[wqe.KLMSize]byte)(list))
	parent := sh.Keys.Find(entry.MKey)
	windowWrites := c.access&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0
	switch {
	case parent == nil || parent.Region == nil || parent.Client != q.Client:
		return "its memory is not registered under the key of the list entry"
	case parent.PD != q.PD:
		return "its memory belongs to another protection domain"
	case parent.Access&control.AccessMWBind == 0:
		return "its memory was registered without the right to bind windows"
	case windowWrites && parent.Access&control.AccessLocalWrite == 0:
		return "it would allow writing to memory that its owner may not write"
	}
	if !parent.Holds(entry.Addr, c.size) {
		return "its range is outside the memory of the list entry"
	}
	s := parent.Stretch(entry.Addr, c.size)
	c.parent, c.mem, c.process = parent, s.Mem, s.Process
	c.from = parent.From + (entry.Addr - parent.Base)
	return ""
}

// planList fills the list key k with the entries in list. If list begins with a repeat block, the entries
// after the block are interleaved.
func (sh *requester) planList(k *object.Mkey, c *change, list []byte) (why string) {
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

// planInterleaved fills the list key k with the entries in list, which follow the repeat block b.
func planInterleaved(k *object.Mkey, c *change, b wqe.RepeatBlock, list []byte) (why string) {
	if int(b.NumEntries)*wqe.RepeatEntrySize > len(list) || b.RepeatCount == 0 {
		return "its repeat block has more entries than the list, or repeats 0 times"
	}
	c.rounds = uint64(b.RepeatCount)
	for i := range int(b.NumEntries) {
		entry := wqe.ParseRepeatEntry((*[wqe.RepeatEntrySize]byte)(list[i*wqe.RepeatEntrySize:]))
		if entry.ByteCount == 0 {
			continue // padding
		}
		c.list = append(c.list, object.Run{Key: entry.MKey, Addr: entry.Addr, N: uint64(entry.ByteCount),
			Stride: uint64(entry.Stride)})
		c.perRound += uint64(entry.ByteCount)
	}
	return checkList(k, c)
}

// checkList checks that the key k has room for the entries in c, and that the entries together have at least
// as many bytes as k gets.
func checkList(k *object.Mkey, c *change) (why string) {
	overflow, total := bits.Mul64(c.perRound, c.rounds)
	switch {
	case len(c.list) > k.Room:
		return "its list has more entries than the key was made for"
	case overflow != 0 || c.size > total:
		return umr.TooLong(c.size, overflow, total)
	}
	return ""
}
