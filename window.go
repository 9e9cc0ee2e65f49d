package nicless

import (
	"fmt"
	"sync/atomic"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
)

// A Window is a memory window: an rkey that gives peers access to a part of an MR. Work
// requests open and close it; no control call is needed.
//
// Its methods are not safe for concurrent use.
type Window struct {
	pd     *PD
	kind   uint8
	key    uint32
	closed atomic.Bool
}

// AllocWindow makes a memory window that gives no access yet. A window of type 1 works
// with all queue pairs of the domain. A window of type 2 works only with the queue pair
// that binds it, and the peer of that queue pair may close it, by SendInval.
func (p *PD) AllocWindow(kind int) (*Window, error) {
	const what = "memory window"
	if err := p.usable(what); err != nil {
		return nil, err
	}
	if kind != 1 && kind != 2 {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "type %d; 1 and 2 are possible", kind))
	}
	var ans control.Key
	if _, err := p.ctx.call(what, control.OpAllocMW, &control.MW{PDN: p.num, Kind: uint8(kind)}, &ans); err != nil {
		return nil, err
	}
	return &Window{pd: p, kind: uint8(kind), key: ans.Key}, nil
}

// String returns, for instance, "window of type 2, rkey 0x00002100".
func (w *Window) String() string { return fmt.Sprintf("window of type %d, rkey %#08x", w.kind, w.key) }

// RKey returns the key for the peer, as of the last Bind.
func (w *Window) RKey() uint32 { return w.key }

// SetRKey sets the key that the next Bind starts from, where it is not what the last Bind
// returned: after a bind that failed, or that the program put together itself.
func (w *Window) SetRKey(rkey uint32) { w.key = rkey }

// IncRKey returns the rkey of the next variant: 24 bits of index stay, 8 bits
// count (ibv_inc_rkey).
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// Bind returns what a SendWR with BindMW needs to open n bytes of m from off
// on, under a new rkey, which RKey returns from now on:
//
//	q.PostSend(&SendWR{Op: BindMW, Bind: w.Bind(m, 0, 100, RemoteWrite)})
//
// m must have been registered with MWBind, and with LocalWrite for windows that
// can be written through. The peer names the bytes by their addresses in m;
// with ZeroBased by offsets from the beginning of the window. n 0 closes the
// window, as LocalInval of its RKey does for one of type 2. Bind panics if off or
// n is negative.
func (w *Window) Bind(m *MR, off, n int, access Access) *Bind {
	notNegative(off, n)
	b := &Bind{
		Type: w.kind, MW: w.key, RKey: IncRKey(w.key), LKey: m.LKey(), Addr: m.Addr() + uint64(off), Length: uint64(n), Access: uint32(access),
	}
	w.key = b.RKey
	return b
}

// Close frees the window. It gives no access any more, bound or not. Closing twice does
// nothing.
func (w *Window) Close() error {
	if w == nil || w.pd == nil {
		return errZero
	}
	return w.pd.freeKey("close window", &w.closed, &w.key)
}

// freeKey destroys a key that has no memory of its own.
func (p *PD) freeKey(what string, closed *atomic.Bool, key *uint32) error {
	return closing(p.ctx, closed, func() error {
		_, err := p.ctx.call(what, control.OpDeregMR, &control.Key{Key: *key}, &control.Empty{})
		return err
	})
}

// A ListKey is a key to a list of pieces of memory, which work requests use as if the
// pieces lay one behind the other from address 0 on. A work request with BindList fills
// it.
type ListKey struct {
	pd     *PD
	key    uint32
	closed atomic.Bool
}

// CreateListKey makes a key for a list of up to entries pieces, 1 to 52, which
// gives no access yet.
func (p *PD) CreateListKey(entries int) (*ListKey, error) {
	const what = "list key"
	if err := p.usable(what); err != nil {
		return nil, err
	}
	if entries < 1 || entries > hostpath.MaxList {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "%d entries; 1 to %d are possible", entries, hostpath.MaxList))
	}
	var ans control.Key
	if _, err := p.ctx.call(what, control.OpCreateMkey, &control.Mkey{PDN: p.num, Entries: uint32(entries)}, &ans); err != nil {
		return nil, err
	}
	return &ListKey{pd: p, key: ans.Key}, nil
}

// String returns, for instance, "list key 0x00002100".
func (k *ListKey) String() string { return fmt.Sprintf("list key %#08x", k.key) }

// LKey returns the key for SGEs of this side.
func (k *ListKey) LKey() uint32 { return k.key }

// RKey returns the key for the other side; on this device the same number.
func (k *ListKey) RKey() uint32 { return k.key }

// SGE names n bytes of the list from off on, for a work request: see MR.SGE.
func (k *ListKey) SGE(off, n int) SGE { return piece(0, off, n, k.key) }

// List returns what a SendWR with BindList needs to make the key a list of the pieces:
//
//	q.PostSend(&SendWR{Op: BindList, List: k.List(RemoteWrite|LocalWrite, a.SGE(0, 10), b.SGE(64, 6))})
func (k *ListKey) List(access Access, pieces ...SGE) *List {
	l := &List{Key: k.key, Access: uint32(access), Entries: make([]ListEntry, len(pieces))}
	for i := range pieces {
		l.Entries[i].SGE = pieces[i]
	}
	return l
}

// Interleave is List for pieces that repeat. The list has the entries repeat times; each
// time, every entry lies its Stride further on.
func (k *ListKey) Interleave(access Access, repeat uint32, entries ...ListEntry) *List {
	return &List{Key: k.key, Access: uint32(access), Repeat: repeat, Entries: entries}
}

// Close frees the key. Closing twice does nothing.
func (k *ListKey) Close() error {
	if k == nil || k.pd == nil {
		return errZero
	}
	return k.pd.freeKey("close list key", &k.closed, &k.key)
}
