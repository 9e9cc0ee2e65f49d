package engine

import (
	"crypto/rand"
	"encoding/binary"
)

// An mkey is a registered range of a client's memory: what an lkey or rkey
// names. All 32 bits of a key must match: 24 of index, 8 of variant.
type mkey struct {
	key    uint32
	access uint32 // control.Access*
	pd     *pd
	base   uint64 // first address by which work requests name the range
	mem    []byte // the range itself, in the device's mapping
	region *region
}

// span returns n bytes of the key from addr on, and false when they are not
// wholly inside.
func (k *mkey) span(addr, n uint64) ([]byte, bool) {
	off := addr - k.base
	size := uint64(len(k.mem))
	if off > size || n > size-off {
		return nil, false
	}
	return k.mem[off : off+n : off+n], true
}

// A keyTable finds an mkey by its 32 bits: open addressing with linear probing,
// at most half full. A key's index is random, so that nobody can guess a
// neighbour's; a plain array of 2^24 would be too large for that.
type keyTable struct {
	slots []keySlot
	shift uint // 32 - log2 of len(slots)
	used  int
}

type keySlot struct {
	key uint32
	m   *mkey // nil: empty
}

const keyEnd = 0x100 // ends a receive list, never handed out

func newKeyTable() keyTable { return keyTable{slots: make([]keySlot, 64), shift: 32 - 6} }

// home is where the search for a key begins: by index alone, so that all
// variants of an index meet.
func (t *keyTable) home(key uint32) uint32 { return (key >> 8) * 0x9e3779b1 >> t.shift }

// find returns the mkey of this key, nil when there is none.
func (t *keyTable) find(key uint32) *mkey {
	slots := t.slots
	mask := uint32(len(slots) - 1)
	for i := t.home(key); ; i++ {
		s := &slots[i&mask]
		if s.m == nil || s.key == key {
			return s.m
		}
	}
}

// findIndex returns the mkey with this key's index, whatever its variant.
func (t *keyTable) findIndex(key uint32) *mkey {
	mask := uint32(len(t.slots) - 1)
	for i := t.home(key); ; i++ {
		s := &t.slots[i&mask]
		if s.m == nil || s.key>>8 == key>>8 {
			return s.m
		}
	}
}

// add gives m a key of its own and stores it.
func (t *keyTable) add(m *mkey) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // crypto/rand does not fail
		key := binary.LittleEndian.Uint32(b[:])
		// Index 0 holds nothing, index 1 the terminator, the last one "any".
		if index := key >> 8; index < 2 || index == 0xffffff || t.findIndex(key) != nil {
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

// remove takes a key out and closes the gap, so that no search stops at it.
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
