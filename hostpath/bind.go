package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/wqe"
)

// Access rights, with the numbers of verbs (enum ibv_access_flags).
const (
	AccessLocalWrite   = 1 << 0
	AccessRemoteWrite  = 1 << 1
	AccessRemoteRead   = 1 << 2
	AccessRemoteAtomic = 1 << 3
	AccessZeroBased    = 1 << 5 // addresses of the window begin at 0
)

// MaxBind is the size of the longest memory window, in bytes. It is the limit of one
// list entry.
const MaxBind = wqe.MaxPointer

// A Bind says which memory a window opens: Length bytes at Addr in the MR whose key is
// LKey. A Length of 0 closes the window.
type Bind struct {
	Type   uint8  // 1 or 2: a window of type 2 belongs to the QP that binds it
	MW     uint32 // the window's present rkey
	RKey   uint32 // the window's new rkey: only the low 8 bits may differ from MW
	LKey   uint32
	Addr   uint64
	Length uint64 // number of bytes, at most MaxBind
	Access uint32 // Access bits
}

// Sizes in units of 16 bytes: the fixed segments of a UMR WQE after its control segment, and
// one block of its list.
const (
	umrUnits  = (wqe.UMRCtrlSize + wqe.MkeyContextSize) / wqe.UnitSize
	listUnits = wqe.BlockSize / wqe.UnitSize
)

func (b *Bind) check() error {
	switch {
	case b == nil:
		return fmt.Errorf("nicless: BIND_MW without Bind")
	case b.Type != 1 && b.Type != 2:
		return fmt.Errorf("nicless: memory window of type %d; 1 and 2 are possible", b.Type)
	case b.Length > MaxBind:
		return fmt.Errorf("nicless: memory window of %d bytes, at most %d", b.Length, uint64(MaxBind))
	}
	return nil
}

// units returns the size of the WQE after its control segment, in units of 16 bytes.
func (b *Bind) units() int {
	if b.Length == 0 {
		return umrUnits
	}
	return umrUnits + listUnits
}

// mkeyAccess returns the access bits that an mkey context has for these verbs rights.
func mkeyAccess(rights uint32) (access uint8) {
	for _, r := range wqe.MkeyRights {
		if rights&uint32(r.Right) != 0 {
			access |= r.Access
		}
	}
	return access
}

// write writes the UMR that performs the bind on queue qpn.
func (b *Bind) write(to *wqe.Builder, qpn uint32) {
	ctrl := wqe.UMRCtrl{
		Flags:    wqe.UMRInline | wqe.UMRTranslationOffset,
		MkeyMask: wqe.MaskFree | wqe.MaskMkey,
	}
	mkey := wqe.MkeyContext{QPNMkey: 0xffffff00 | b.RKey&0xff}
	if b.Type == 2 {
		ctrl.MkeyMask |= wqe.MaskQPN
	}
	if b.Length == 0 {
		if b.Type == 2 {
			ctrl.Flags |= wqe.UMRCheckQPN
		}
		mkey.Free = wqe.MkeyFree
		to.UMRCtrl(ctrl)
		to.MkeyContext(mkey)
		return
	}
	ctrl.KLMOctowords = listUnits
	ctrl.MkeyMask |= wqe.MaskLen | wqe.MaskStartAddr | wqe.MaskLocalWrite |
		wqe.MaskRemoteRead | wqe.MaskRemoteWrite | wqe.MaskAtomic
	if b.Type == 2 {
		ctrl.Flags |= wqe.UMRCheckFree
		mkey.QPNMkey = qpn<<8 | b.RKey&0xff
	}
	mkey.Access = mkeyAccess(b.Access)
	if b.Access&AccessZeroBased == 0 {
		mkey.StartAddr = b.Addr
	}
	mkey.Len = b.Length
	to.UMRCtrl(ctrl)
	to.MkeyContext(mkey)
	to.KLM(wqe.KLM{ByteCount: uint32(b.Length), MKey: b.LKey, Addr: b.Addr})
	to.Pad()
}
