//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/nicless/nicless/wqe"
)

// An mkey is the object that an lkey or rkey names: a range of a client's memory, a memory
// window on such a range, or a list of ranges under other keys. All 32 bits of a key must
// match: 24 of index, 8 of variant.
type mkey struct {
	key    uint32
	access uint32 // control.Access*
	pd     *pd    // nil for windows: see serves
	base   uint64 // first address of the range, as work requests give it
	size   uint64
	mem    []byte // the range in the device's mapping; nil for lists, while free, and if unmapped
	client *client

	region   *region // of registered memory
	from     uint64  // of registered memory and bound windows: address of the range in the client
	windows  int     // windows that are bound to it
	list     []run   // of a list: its entries; with capacity for all that it may have
	perRound uint64  // bytes of all runs together
	rounds   uint64  // how often the list repeats; 1 unless interleaved

	changed uint64 // epoch of the last change of what it gives access to
	looked  uint64 // of a list: epoch in which changed was last brought up to date with its entries

	window *window // of a memory window
	free   bool    // a window that is not bound, or a list that is not filled
	room   int     // entries that a list may have

	process  *process // the process that has the memory, if it is unmapped
	unmapped bool     // of a list: some of its memory is unmapped
}

// A run is one entry of a list: n bytes at addr under another key, and stride
// bytes further on in each round.
type run struct {
	key    uint32
	addr   uint64
	n      uint64
	stride uint64
	found  *mkey // the mkey that key named when the work request was judged
}

// A window is the part of an mkey that is a memory window.
type window struct {
	kind   uint8 // 1 or 2
	pd     *pd
	qpn    uint32 // of a bound window of type 2: the QP that it belongs to
	serial uint64 // of that QP; another QP may get its number later
	parent *mkey  // while bound: the key of the memory that it opens
}

// serves reports whether p, as a responder, may give access by k: k or its window is of p's
// protection domain, and a window of type 2 is bound to p itself. The pd of a window's key
// is nil, so that no local access finds it.
func (k *mkey) serves(p *qp) bool {
	if k.window == nil {
		return k.pd == p.pd
	}
	return k.window.pd == p.pd && (k.window.kind == 1 || k.window.serial == p.serial)
}

// span returns n bytes of the key from addr on, and false if they are not wholly inside, or
// are not mapped in one piece.
func (k *mkey) span(addr, n uint64) ([]byte, bool) {
	off := addr - k.base
	size := uint64(len(k.mem))
	if off > size || n > size-off {
		return nil, false
	}
	return k.mem[off : off+n : off+n], true
}

// A keyTable finds an mkey by the 32 bits of its key: open addressing with linear probing,
// at most half full. The index of a key is random, so that no client can guess the keys of
// another; a plain array of 2^24 would be too large for random indices.
type keyTable struct {
	slots  []keySlot
	shift  uint // 32 - log2 of len(slots)
	used   int
	random io.Reader
}

type keySlot struct {
	key uint32 // changes while others search, by rekey
	m   *mkey  // nil: empty
}

// repeatIndex is the index that, with variant 0, would make a list entry read as
// a repeat block.
const repeatIndex = wqe.RepeatOp >> 8

func newKeyTable(random io.Reader) keyTable {
	return keyTable{slots: make([]keySlot, 64), shift: 32 - 6, random: random}
}

// home is the slot where the search for a key begins. It depends on the index alone, so that
// all variants of an index have the same one.
func (t *keyTable) home(key uint32) uint32 { return (key >> 8) * 0x9e3779b1 >> t.shift }

// find returns the mkey of this key, or nil if there is none.
func (t *keyTable) find(key uint32) *mkey {
	slots := t.slots
	mask := uint32(len(slots) - 1)
	for i := t.home(key); ; i++ {
		s := &slots[i&mask]
		if s.m == nil || atomic.LoadUint32(&s.key) == key {
			return s.m
		}
	}
}

// findIndex returns the mkey with this key's index, whatever its variant.
func (t *keyTable) findIndex(key uint32) *mkey {
	mask := uint32(len(t.slots) - 1)
	for i := t.home(key); ; i++ {
		s := &t.slots[i&mask]
		if s.m == nil || atomic.LoadUint32(&s.key)>>8 == key>>8 {
			return s.m
		}
	}
}

// add gives m a key of its own and stores it. Most indices are free: see
// maxMemory.
func (t *keyTable) add(m *mkey) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	for {
		var b [4]byte
		_, _ = io.ReadFull(t.random, b[:]) // crypto/rand does not fail
		key := binary.LittleEndian.Uint32(b[:])
		// Index 0 holds nothing, index 1 the terminator, the last one "any".
		if index := key >> 8; index < 2 || index == repeatIndex || index == 0xffffff || t.findIndex(key) != nil {
			continue
		}
		m.key = key
		t.put(keySlot{key, m})
		t.used++
		return
	}
}

func (t *keyTable) put(s keySlot) {
	mask := uint32(len(t.slots) - 1)
	i := t.home(s.key)
	for t.slots[i&mask].m != nil {
		i++
	}
	t.slots[i&mask] = s
}

func (t *keyTable) grow() {
	old := t.slots
	t.slots = make([]keySlot, 2*len(old))
	t.shift--
	for _, s := range old {
		if s.m != nil {
			t.put(s)
		}
	}
}

// rekey gives m another variant of its index. Other shards may be searching.
func (t *keyTable) rekey(m *mkey, key uint32) {
	mask := uint32(len(t.slots) - 1)
	for i := t.home(m.key); ; i++ {
		if s := &t.slots[i&mask]; s.m == m {
			atomic.StoreUint32(&s.key, key)
			m.key = key
			return
		}
	}
}

// remove removes a key and closes the gap, so that no search ends there.
func (t *keyTable) remove(key uint32) {
	mask := uint32(len(t.slots) - 1)
	i := t.home(key)
	for t.slots[i&mask].key != key || t.slots[i&mask].m == nil {
		if t.slots[i&mask].m == nil {
			return
		}
		i++
	}
	t.used--
	for j := i + 1; ; j++ {
		s := t.slots[j&mask]
		if s.m == nil {
			break
		}
		// s may move to the gap unless its home lies between gap and s.
		if (j-t.home(s.key))&mask >= (j-i)&mask {
			t.slots[i&mask] = s
			i = j
		}
	}
	t.slots[i&mask] = keySlot{}
}
