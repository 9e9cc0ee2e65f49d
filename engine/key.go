//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// An mkey is the object that an lkey or rkey names. It is a range of a client's memory, a
// memory window on such a range, or a list of ranges under other keys. A key has 24 bits of
// index and 8 bits of variant, and all 32 bits must match.
type mkey struct {
	key    uint32
	access uint32 // control.Access*
	pd     *pd    // nil for windows: a window's pd is in window, see serves
	base   uint64 // address of the first byte of the range, as work requests give it
	size   uint64
	mem    []byte // the range in the device's mapping; nil for lists, for free keys, and for unmapped memory
	client *client

	region   *region // if the key is of registered memory: the region of that memory; otherwise nil
	from     uint64  // if the key is of registered memory or a bound window: address of the range in the client
	windows  int     // number of windows that are bound to this key's memory
	list     []run   // if the key is a list: its entries; the capacity is the value of the field room
	perRound uint64  // if the key is a list: bytes of all entries in one round
	rounds   uint64  // if the key is a list: number of rounds through its entries; 1 unless the list is interleaved

	changed uint64 // epoch in which the memory or the rights of this key last changed
	looked  uint64 // if the key is a list: epoch in which lastChange last read the entries to update the field changed

	window *window // if the key is a memory window: what only windows have; otherwise nil
	free   bool    // a window that is not bound, or a list that is not filled
	inval  bool    // if the key is a list: a peer may empty it (SEND with invalidate)
	room   int     // if the key is a list: the largest number of entries that it may have; otherwise 0

	process  *process // if the memory is unmapped: the process that has it; otherwise nil
	unmapped bool     // if the key is a list: some of its memory is unmapped
}

// A run is one entry of a list: n bytes at addr under another key. An interleaved list
// repeats its entries in rounds. From one round to the next, the address of the n bytes grows
// by stride.
type run struct {
	key    uint32
	addr   uint64
	n      uint64
	stride uint64
	found  *mkey // the mkey that key named when the work request was judged
}

// A window holds what only an mkey that is a memory window has.
type window struct {
	kind   uint8 // 1 or 2
	pd     *pd
	qpn    uint32 // if bound and of type 2: number of the QP that the window belongs to
	serial uint64 // if bound and of type 2: serial of that QP, whose number another QP may get later
	parent *mkey  // if bound: the key of the memory that the window opens; otherwise nil
}

// serves reports whether p, as a responder, may give access by the key k. The protection
// domain of k (for a window, that of k.window) must be p's, and a window of type 2 must be
// bound to p itself. k.pd is nil if k is a window, so that local access by the key of a window
// is always refused.
func (k *mkey) serves(p *qp) bool {
	if k.window == nil {
		return k.pd == p.pd
	}
	return k.window.pd == p.pd && (k.window.kind == 1 || k.window.serial == p.serial)
}

// span returns the n bytes of the key that begin at addr. It returns false if they are not
// wholly inside the key, or are not mapped in one piece.
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

// add gives m a new key and stores m in the table. It soon finds a free index, because
// maxMemory in internal/quota bounds the number of keys, so that most indices are free.
func (t *keyTable) add(m *mkey) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	for {
		var b [4]byte
		_, _ = io.ReadFull(t.random, b[:]) // crypto/rand never fails
		key := binary.LittleEndian.Uint32(b[:])
		// Besides repeatIndex, four indices are reserved: 0 for no key, 1 for the terminator
		// of a receive list, that of the null key, and 0xffffff for "any".
		if index := key >> 8; index <= control.NullKey>>8 || index == repeatIndex || index == 0xffffff || t.findIndex(key) != nil {
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
		// The slot s moves into the gap, unless its home is between the gap and s, or is
		// s itself: a search for its key would then never look into the gap.
		if (j-t.home(s.key))&mask >= (j-i)&mask {
			t.slots[i&mask] = s
			i = j
		}
	}
	t.slots[i&mask] = keySlot{}
}
