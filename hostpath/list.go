package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/wqe"
)

// MaxList is how many entries fit the longest WQE.
const MaxList = (wqe.MaxUnits - 1 - umrUnits) / 4 * 4

// A List is the contents of a list key: its entries in order form one range of
// addresses from 0 on.
type List struct {
	Key    uint32 // as it is now; the same from then on
	Access uint32 // Access bits; each entry's own key limits them further

	// Repeat, if not 0, makes the list interleave: it goes through the entries so
	// many times, and each time every entry lies its Stride further on.
	Repeat  uint32
	Entries []ListEntry // 1 to MaxList, one less with Repeat
}

// A ListEntry is one piece of a List. With Repeat, Length and Stride are 16 bits.
type ListEntry struct {
	SGE
	Stride uint32 // bytes from one repetition to the next; with Repeat only
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

// listLen is how many units of list l has before padding.
func (l *List) listLen() int {
	if l.Repeat != 0 {
		return 1 + len(l.Entries)
	}
	return len(l.Entries)
}

// units is the size of the WQE after its control segment.
func (l *List) units() int {
	return umrUnits + (l.listLen()+listUnits-1)/listUnits*listUnits
}

// write lays the UMR that fills the key.
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
			ByteCount: uint32(total), Op: wqe.RepeatOp, RepeatCount: l.Repeat, NumEntries: uint16(len(l.Entries)),
		})
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		if l.Repeat != 0 {
			to.RepeatEntry(wqe.RepeatEntry{Stride: uint16(e.Stride), ByteCount: uint16(e.Length), MKey: e.LKey, Addr: e.Addr})
		} else {
			to.KLM(wqe.KLM{ByteCount: e.Length, MKey: e.LKey, Addr: e.Addr})
		}
	}
	to.Pad()
}
