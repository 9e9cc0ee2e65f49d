//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/nicless/nicless/wqe"
)

// An mkey is the object that an lkey or rkey names. It is a range of a client's memory, a
// memory window on such a range, or a list of ranges under other keys. A key has 24 bits of
// index and 8 bits of variant, and all 32 bits must match.
type mkey struct {
	key    uint32
	access uint32 // control.Access*
	pd     *pd    // nil for windows: see serves
	base   uint64 // address of the first byte of the range, as work requests give it
	size   uint64
	mem    []byte // the range in the device's mapping; nil for lists, for free keys, and for unmapped memory
	client *client

	region   *region // of registered memory
	from     uint64  // of registered memory and bound windows: address of the range in the client
	windows  int     // number of windows that are bound to it
	list     []run   // of a list: its entries; has capacity for room entries
	perRound uint64  // of a list: bytes of all its entries in one round
	rounds   uint64  // of a list: how often it repeats; 1 unless interleaved

	changed uint64 // epoch in which the memory or the rights of this key last changed
	looked  uint64 // of a list: epoch in which changed last took in the changes of its entries

	window *window // of a memory window
	free   bool    // a window that is not bound, or a list that is not filled
	room   int     // of a list: the most entries that it may have

	process  *process // of unmapped memory: the process that has it
	unmapped bool     // of a list: some of its memory is unmapped
}

// A run is one entry of a list: n bytes at addr under another key. In each later round the
// bytes are stride bytes further on.
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
	serial uint64 // of a bound window of type 2: serial of that QP, whose number another QP may get later
	parent *mkey  // of a bound window: the key of the memory that it opens
}

// serves reports whether p, as a responder, may give access by k. k, or its window, must be
// of p's protection domain, and a window of type 2 must be bound to p itself. The pd of a
// window's key is nil, so that local access by it is always refused.
func (k *mkey) serves(p *qp) bool {
	if k.window == nil {
		return k.pd == p.pd
	}
	return k.window.pd == p.pd && (k.window.kind == 1 || k.window.serial == p.serial)
}

// span returns n bytes of the key from addr on. It returns false if they are not wholly
// inside the key, or are not mapped in one piece.
func (k *mkey) span(addr, n uint64) ([]byte, bool) {
	off := addr - k.base
	size := uint64(len(k.mem))
	if off > size || n > size-off {
		return nil, false
	}
	return k.mem[off : off+n : off+n], true
}

// A keyTable finds an mkey by the 32 bits of its key. It is a hash table with open
// addressing and linear probing, at most half full. The index of a key is random, so that
// no client can guess the keys of another. For random indices a plain array would need 2^24
// entries, which is too large.
type keyTable struct {
	slots  []keySlot
	shift  uint // 32 - log2 of len(slots)
	used   int
	random io.Reader
}

type keySlot struct {
	key uint32 // rekey changes it while other shards search
	m   *mkey  // nil: the slot is empty
}

// repeatIndex is the index that no key may have: a list entry with this index and variant 0
// would read as a repeat block.
const repeatIndex = wqe.RepeatOp >> 8

func newKeyTable(random io.Reader) keyTable {
	return keyTable{slots: make([]keySlot, 64), shift: 32 - 6, random: random}
}

// home is the index of the slot where the search for a key begins. It depends on the key's
// index alone, so that all variants of an index have the same home.
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

// add gives m a new key and stores m in the table. Most indices are free, because maxMemory
// in internal/quota bounds the number of keys.
func (t *keyTable) add(m *mkey) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	for {
		var b [4]byte
		_, _ = io.ReadFull(t.random, b[:]) // crypto/rand never fails
		key := binary.LittleEndian.Uint32(b[:])
		// Three indices are reserved: 0 for no key, 1 for the terminator of a receive list,
		// and the last one for "any".
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

// rekey gives the key of m another variant of its index. Other shards may be searching.
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
		// s may move to the gap, unless its home is after the gap and not after s.
		if (j-t.home(s.key))&mask >= (j-i)&mask {
			t.slots[i&mask] = s
			i = j
		}
	}
	t.slots[i&mask] = keySlot{}
}
