//go:build linux && (amd64 || arm64)

package umr

import (
	"math/bits"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/process"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A Change has the new values of all fields of a key that a UMR may change. Plan fills it, checks the whole
// change, and changes nothing else; after that, the engine stores the values in the key.
type Change struct {
	Key    uint32 // the new key: the same index, perhaps another variant
	Free   bool   // the UMR unbinds the window or empties the list
	Access uint32 // new rights: control.Access*
	Base   uint64 // address of the first byte, as work requests give it
	Size   uint64

	// These fields are for windows.
	QPN     uint32       // number of the queue pair to which the window is bound
	Serial  uint64       // serial of the queue pair that executes the UMR
	Parent  *object.Mkey // the key of the memory that the window opens
	Mem     []byte       // the window's bytes in the device's mapping; nil if they are not mapped
	Process *process.Process
	From    uint64 // address of the window's first byte in the client
	Beyond  Range  // the range that was asked for, if some of it is not in the memory

	// These fields are for lists, and mean what they mean in Mkey. The caller gives List
	// room without entries, so that nothing is allocated.
	List             []object.Run
	PerRound, Rounds uint64
}

// A Range is N bytes at Addr; N is 0 if there is none.
type Range struct{ Addr, N uint64 }

// Plan changes c, which has the present values of the key k, as a UMR requests that the queue pair q of the
// device d executes. ctrl, ctx and list are the UMR: its control segment, its context, and the bytes of the
// list in the WQE. If the change cannot be made, Plan returns the reason, otherwise an empty string. The
// functions below return a reason or an empty string, too. Plan is called by the thread that executes q.
func (c *Change) Plan(d *object.Device, q *object.QP, k *object.Mkey, ctrl wqe.UMRCtrl, ctx wqe.MkeyContext,
	list []byte) (why string) {
	mask := ctrl.MkeyMask
	if what := Unchangeable(mask); what != "" {
		return "its mask asks to change " + what + ", which this device does not"
	}
	if mask&wqe.MaskLocalRead != 0 && ctx.Access&wqe.AccessLocalRead == 0 {
		return "it takes away local reading, which is always allowed here"
	}
	if mask&wqe.MaskMkey != 0 {
		const variant = 0xff
		c.Key = k.Key&^variant | ctx.QPNMkey&variant
	}
	if mask&wqe.MaskFree != 0 && ctx.Free&wqe.MkeyFree != 0 {
		c.Free = true
		return ""
	}
	for _, r := range wqe.MkeyRights {
		switch {
		case mask&r.Mask == 0: // the UMR leaves this right as it is
		case ctx.Access&r.Access != 0:
			c.Access |= uint32(r.Right)
		default:
			c.Access &^= uint32(r.Right)
		}
	}
	if mask&wqe.MaskStartAddr != 0 {
		c.Base = ctx.StartAddr
	}
	if mask&wqe.MaskLen != 0 {
		c.Size = ctx.Len
	}
	last := c.Base + c.Size - 1 // address of the last byte
	if c.Size > 0 && last < c.Base {
		return "its range passes the end of the address space"
	}
	if ctrl.Flags&wqe.UMRInline == 0 {
		return "without a list in the WQE (INLINE) nothing can be bound"
	}
	if k.Window != nil {
		c.QPN, c.Serial = ctx.QPNMkey>>8, q.Serial
		if k.Window.Kind == 2 && c.QPN != q.Num {
			return "a window of type 2 must be bound to the queue pair that binds it"
		}
		return c.planWindow(d, q, list)
	}
	keepEntries := len(list) == 0 && mask&wqe.MaskLen == 0 // the UMR changes other attributes only
	if keepEntries {
		c.List, c.PerRound, c.Rounds = k.List, k.PerRound, k.Rounds
		return ""
	}
	return c.planList(k, list)
}

// planWindow binds a window to the memory in the first entry of list. The entry gives the key under which
// that memory is registered.
func (c *Change) planWindow(d *object.Device, q *object.QP, list []byte) (why string) {
	if len(list) < wqe.KLMSize {
		return "a window needs one list entry"
	}
	entry := wqe.ParseKLM((*[wqe.KLMSize]byte)(list))
	parent := d.Keys.Find(entry.MKey)
	windowWrites := c.Access&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0
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
	// As on mlx5, a range that is not in the memory is no fault of the UMR: its use is refused.
	addr := entry.Addr
	if !parent.Holds(addr, c.Size) {
		c.Beyond = Range{addr, c.Size}
		before, n := Within(addr, c.Size, parent.Base, parent.Size)
		addr, c.Base, c.Size = addr+before, c.Base+before, n
	}
	c.Parent, c.Process, c.From = parent, parent.Process, parent.From+(addr-parent.Base)
	if c.Size > 0 {
		c.Mem = parent.Stretch(addr, c.Size).Mem
	}
	return ""
}

// planList fills the list key k with the entries in list. If list begins with a repeat block, the entries
// after the block are interleaved.
func (c *Change) planList(k *object.Mkey, list []byte) (why string) {
	c.Rounds = 1
	if len(list) >= wqe.RepeatBlockSize {
		if b := wqe.ParseRepeatBlock((*[wqe.RepeatBlockSize]byte)(list)); b.Op == wqe.RepeatOp {
			return c.planInterleaved(k, b, list[wqe.RepeatBlockSize:])
		}
	}
	for ; len(list) >= wqe.KLMSize; list = list[wqe.KLMSize:] {
		entry := wqe.ParseKLM((*[wqe.KLMSize]byte)(list))
		if entry.ByteCount == 0 {
			continue // padding
		}
		c.List = append(c.List, object.Run{Key: entry.MKey, Addr: entry.Addr, N: uint64(entry.ByteCount)})
		c.PerRound += uint64(entry.ByteCount)
	}
	return c.checkList(k)
}

// planInterleaved fills the list key k with the entries in list, which follow the repeat block b.
func (c *Change) planInterleaved(k *object.Mkey, b wqe.RepeatBlock, list []byte) (why string) {
	if int(b.NumEntries)*wqe.RepeatEntrySize > len(list) || b.RepeatCount == 0 {
		return "its repeat block has more entries than the list, or repeats 0 times"
	}
	c.Rounds = uint64(b.RepeatCount)
	for i := range int(b.NumEntries) {
		entry := wqe.ParseRepeatEntry((*[wqe.RepeatEntrySize]byte)(list[i*wqe.RepeatEntrySize:]))
		if entry.ByteCount == 0 {
			continue // padding
		}
		c.List = append(c.List, object.Run{Key: entry.MKey, Addr: entry.Addr, N: uint64(entry.ByteCount),
			Stride: uint64(entry.Stride)})
		c.PerRound += uint64(entry.ByteCount)
	}
	return c.checkList(k)
}

// checkList checks that the key k has room for the entries in c, and that the entries together have at least
// as many bytes as k gets.
func (c *Change) checkList(k *object.Mkey) (why string) {
	overflow, total := bits.Mul64(c.PerRound, c.Rounds)
	switch {
	case len(c.List) > k.Room:
		return "its list has more entries than the key was made for"
	case overflow != 0 || c.Size > total:
		return TooLong(c.Size, overflow, total)
	}
	return ""
}
