package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/wqe"
)

// MaxList is how many list entries fit into the longest WQE.
const MaxList = (wqe.MaxUnits - 1 - umrUnits) / 4 * 4

// A List is the contents of a list key. The entries, in order, form one range of addresses
// that begins at 0.
type List struct {
	Key    uint32 // the list key, which does not change
	Access uint32 // Access bits; the key of each entry limits them further

	// Repeat, if not 0, is how many times the entries occur in the list. At each
	// repetition the address of every entry grows by its Stride.
	Repeat  uint32
	Entries []ListEntry // 1 to MaxList entries; if Repeat is not 0, 1 to MaxList-1
}

// A ListEntry is one piece of a List. If List.Repeat is not 0, neither Length nor Stride may
// be greater than 65535.
type ListEntry struct {
	SGE
	Stride uint32 // bytes from one repetition to the next; 0 if List.Repeat is 0
}

func (l *List) check() error {
	if l == nil {
		return fmt.Errorf("nicless: BIND_LIST without List")
	}
	most := MaxList
	if l.Repeat != 0 {
		most--
	}
	if n := len(l.Entries); n < 1 || n > most {
		return fmt.Errorf("nicless: list of %d entries; 1 to %d are possible", n, most)
	}
	limit := uint32(maxLength)
	if l.Repeat != 0 {
		limit = 1<<16 - 1
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		if e.Length == 0 || e.Length > limit {
			return fmt.Errorf("nicless: list entry %d of %d bytes; 1 to %d are possible", i, e.Length, limit)
		}
		if e.Stride > limit || e.Stride != 0 && l.Repeat == 0 {
			return fmt.Errorf("nicless: list entry %d with stride %d; at most %d is possible, with Repeat only", i, e.Stride, uint32(1<<16-1))
		}
	}
	return nil
}

// listLen returns the length of the list before padding, in units of 16 bytes.
func (l *List) listLen() int {
	if l.Repeat != 0 {
		return 1 + len(l.Entries)
	}
	return len(l.Entries)
}

// units returns the size of the WQE after its control segment, in units of 16 bytes.
func (l *List) units() int {
	return umrUnits + (l.listLen()+listUnits-1)/listUnits*listUnits
}

// write writes the UMR that fills the key.
func (l *List) write(to *wqe.Builder) {
	total := uint64(0)
	for i := range l.Entries {
		total += uint64(l.Entries[i].Length)
	}
	ctrl := wqe.UMRCtrl{
		Flags:        wqe.UMRInline,
		KLMOctowords: uint16(l.units() - umrUnits),
		MkeyMask: wqe.MaskFree | wqe.MaskMkey | wqe.MaskLen | wqe.MaskLocalWrite |
			wqe.MaskRemoteRead | wqe.MaskRemoteWrite | wqe.MaskAtomic,
	}
	mkey := wqe.MkeyContext{QPNMkey: 0xffffff00 | l.Key&0xff, Access: mkeyAccess(l.Access), Len: total}
	if l.Repeat != 0 {
		mkey.Len *= uint64(l.Repeat)
	}
	to.UMRCtrl(ctrl)
	to.MkeyContext(mkey)
	if l.Repeat != 0 {
		to.RepeatBlock(wqe.RepeatBlock{
			ByteCount: uint32(total), Op: wqe.RepeatOp,
			RepeatCount: l.Repeat, NumEntries: uint16(len(l.Entries)),
		})
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		if l.Repeat != 0 {
			to.RepeatEntry(wqe.RepeatEntry{
				Stride: uint16(e.Stride), ByteCount: uint16(e.Length), MKey: e.LKey, Addr: e.Addr,
			})
		} else {
			to.KLM(wqe.KLM{ByteCount: e.Length, MKey: e.LKey, Addr: e.Addr})
		}
	}
	to.Pad()
}
