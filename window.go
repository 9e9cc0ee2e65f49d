package nicless

import (
	"fmt"
	"sync/atomic"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
)

// A Window is a memory window: an rkey that gives peers access to a part of an MR. Work
// requests open and close the window, without a control call.
//
// The methods of a Window are not safe for concurrent use.
type Window struct {
	pd     *PD
	kind   uint8
	key    uint32
	closed atomic.Bool
}

// AllocWindow makes a memory window that gives no access yet. kind is its type, 1 or 2. A
// window of type 1 works with all queue pairs of the domain. A window of type 2 works only
// with the queue pair that binds it, and the peer of that queue pair may close it by
// SendInval.
func (p *PD) AllocWindow(kind int) (*Window, error) {
	const what = "memory window"
	if err := p.usable(what); err != nil {
		return nil, err
	}
	if kind != 1 && kind != 2 {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "type %d; 1 and 2 are possible", kind))
	}
	var ans control.Key
	if _, err := p.ctx.call(what, control.OpAllocMW, &control.MW{PDN: p.num, Kind: uint8(kind)},
		&ans); err != nil {
		return nil, err
	}
	return &Window{pd: p, kind: uint8(kind), key: ans.Key}, nil
}

// String returns, for instance, "window of type 2, rkey 0x00002100".
func (w *Window) String() string { return fmt.Sprintf("window of type %d, rkey %#08x", w.kind, w.key) }

// RKey returns the key for the peer, which the last call of Bind or SetRKey has set.
func (w *Window) RKey() uint32 { return w.key }

// SetRKey sets the window's present rkey, from which the next Bind starts. A call of SetRKey
// is needed when the window does not have the rkey of the last call of Bind: if that bind has
// failed, or if the program has filled in a Bind itself.
func (w *Window) SetRKey(rkey uint32) { w.key = rkey }

// IncRKey returns rkey with its low 8 bits incremented. The other 24 bits, the index, stay
// the same (ibv_inc_rkey).
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// Bind returns the Bind field of a SendWR with BindMW. That work request opens n bytes of m,
// beginning at offset off, under a new rkey. RKey returns the new rkey from now on:
//
//	q.PostSend(&SendWR{Op: BindMW, Bind: w.Bind(m, 0, 100, RemoteWrite)})
//
// m must have been registered with MWBind, and also with LocalWrite if access allows
// writing. The peer names the bytes by their addresses in m or, with ZeroBased, by offsets
// from the beginning of the window. If n is 0, the request closes the window. LocalInval of
// its RKey also closes a window of type 2. Bind panics if off or n is negative.
func (w *Window) Bind(m *MR, off, n int, access Access) *Bind {
	notNegative(off, n)
	b := &Bind{
		Type: w.kind, MW: w.key, RKey: IncRKey(w.key), LKey: m.LKey(), Addr: m.Addr() + uint64(off),
		Length: uint64(n), Access: uint32(access),
	}
	w.key = b.RKey
	return b
}

// Close frees the window, bound or not. The window gives no access any more. A second Close
// does nothing.
func (w *Window) Close() error {
	if w == nil || w.pd == nil {
		return errZero
	}
	return w.pd.freeKey("close window", &w.closed, &w.key)
}

// freeKey destroys the key of a Window or ListKey.
func (p *PD) freeKey(what string, closed *atomic.Bool, key *uint32) error {
	return closing(p.ctx, closed, func() error {
		_, err := p.ctx.call(what, control.OpDeregMR, &control.Key{Key: *key}, &control.Empty{})
		return err
	})
}

// A ListKey is a key to a list of pieces of memory. Work requests use the list as if it were
// one contiguous piece of memory that begins at address 0. A work request with BindList
// fills the list.
type ListKey struct {
	pd     *PD
	key    uint32
	closed atomic.Bool
}

// CreateListKey makes a key for a list. entries is the largest number of pieces that the list
// can have, 1 to 52. The key gives no access until its list is filled.
func (p *PD) CreateListKey(entries int) (*ListKey, error) {
	const what = "list key"
	if err := p.usable(what); err != nil {
		return nil, err
	}
	if entries < 1 || entries > hostpath.MaxList {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "%d entries; 1 to %d are possible", entries, hostpath.MaxList))
	}
	var ans control.Key
	if _, err := p.ctx.call(what, control.OpCreateMkey, &control.Mkey{PDN: p.num, Entries: uint32(entries)},
		&ans); err != nil {
		return nil, err
	}
	return &ListKey{pd: p, key: ans.Key}, nil
}

// String returns, for instance, "list key 0x00002100".
func (k *ListKey) String() string { return fmt.Sprintf("list key %#08x", k.key) }

// LKey returns the key for SGEs in work requests of this side.
func (k *ListKey) LKey() uint32 { return k.key }

// RKey returns the key for work requests of the peer. On this device it is the same number
// as LKey.
func (k *ListKey) RKey() uint32 { return k.key }

// SGE returns an SGE that names n bytes of the list, beginning at offset off: see MR.SGE.
func (k *ListKey) SGE(off, n int) SGE { return piece(0, off, n, k.key) }

// List returns the List field of a SendWR with BindList. That work request makes the key a
// list of the pieces:
//
//	q.PostSend(&SendWR{Op: BindList, List: k.List(RemoteWrite|LocalWrite, a.SGE(0, 10), b.SGE(64, 6))})
func (k *ListKey) List(access Access, pieces ...SGE) *List {
	l := &List{Key: k.key, Access: uint32(access), Entries: make([]ListEntry, len(pieces))}
	for i := range pieces {
		l.Entries[i].SGE = pieces[i]
	}
	return l
}

// Interleave is List for pieces that repeat. repeat is the number of times that the list
// contains the entries. At each repetition, the address of every entry grows by its Stride.
func (k *ListKey) Interleave(access Access, repeat uint32, entries ...ListEntry) *List {
	return &List{Key: k.key, Access: uint32(access), Repeat: repeat, Entries: entries}
}

// Close frees the key. A second Close does nothing.
func (k *ListKey) Close() error {
	if k == nil || k.pd == nil {
		return errZero
	}
	return k.pd.freeKey("close list key", &k.closed, &k.key)
}
