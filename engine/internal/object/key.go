//go:build linux && (amd64 || arm64)

package object

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Serves reports whether p, as a responder, may give access by the key k. The protection
// domain of k (for a window, that of k.Window) must be p's, and a window of type 2 must be
// bound to p itself. k.PD is nil if k is a window, so that local access by the key of a window
// is always refused.
func (k *Mkey) Serves(p *QP) bool {
	if k.Window == nil {
		return k.PD == p.PD
	}
	return k.Window.PD == p.PD && (k.Window.Kind == 1 || k.Window.Serial == p.Serial)
}

// Span returns the n bytes of the key that begin at addr. It returns false if they are not
// wholly inside the key, or are not mapped in one piece.
func (k *Mkey) Span(addr, n uint64) ([]byte, bool) {
	off := addr - k.Base
	size := uint64(len(k.Mem))
	if off > size || n > size-off {
		return nil, false
	}
	return k.Mem[off : off+n : off+n], true
}

// repeatIndex is the index that no key may have: a list entry with this index and variant 0
// would read as a repeat block.
const repeatIndex = wqe.RepeatOp >> 8

func NewKeyTable(random io.Reader) keyTable {
	return keyTable{Slots: make([]KeySlot, 64), shift: 32 - 6, random: random}
}

// Home is the index of the slot where the search for a key begins. It depends on the key's
// index alone, so that all variants of an index have the same home.
func (t *keyTable) Home(key uint32) uint32 { return (key >> 8) * 0x9e3779b1 >> t.shift }

// Find returns the mkey of this key, or nil if there is none.
func (t *keyTable) Find(key uint32) *Mkey {
	slots := t.Slots
	mask := uint32(len(slots) - 1)
	for i := t.Home(key); ; i++ {
		s := &slots[i&mask]
		if s.M == nil || atomic.LoadUint32(&s.Key) == key {
			return s.M
		}
	}
}

// FindIndex returns the mkey with this key's index, whatever its variant.
func (t *keyTable) FindIndex(key uint32) *Mkey {
	mask := uint32(len(t.Slots) - 1)
	for i := t.Home(key); ; i++ {
		s := &t.Slots[i&mask]
		if s.M == nil || atomic.LoadUint32(&s.Key)>>8 == key>>8 {
			return s.M
		}
	}
}

// Add gives m a new key and stores m in the table. It soon finds a free index, because
// maxMemory in internal/quota bounds the number of keys, so that most indices are free.
func (t *keyTable) Add(m *Mkey) {
	if 2*(t.Used+1) > len(t.Slots) {
		t.Grow()
	}
	for {
		var b [4]byte
		_, _ = io.ReadFull(t.random, b[:]) // crypto/rand never fails
		key := binary.LittleEndian.Uint32(b[:])
		// Besides repeatIndex, four indices are reserved: 0 for no key, 1 for the terminator
		// of a receive list, that of the null key, and 0xffffff for "any".
		if index := key >> 8; index <= control.NullKey>>8 || index == repeatIndex || index == 0xffffff ||
			t.FindIndex(key) != nil {
			continue
		}
		m.Key = key
		t.Put(KeySlot{key, m})
		t.Used++
		return
	}
}

func (t *keyTable) Put(s KeySlot) {
	mask := uint32(len(t.Slots) - 1)
	i := t.Home(s.Key)
	for t.Slots[i&mask].M != nil {
		i++
	}
	t.Slots[i&mask] = s
}

func (t *keyTable) Grow() {
	old := t.Slots
	t.Slots = make([]KeySlot, 2*len(old))
	t.shift--
	for _, s := range old {
		if s.M != nil {
			t.Put(s)
		}
	}
}

// Rekey gives the key of m another variant of its index. Other shards may be searching.
func (t *keyTable) Rekey(m *Mkey, key uint32) {
	mask := uint32(len(t.Slots) - 1)
	for i := t.Home(m.Key); ; i++ {
		if s := &t.Slots[i&mask]; s.M == m {
			atomic.StoreUint32(&s.Key, key)
			m.Key = key
			return
		}
	}
}

// Remove removes a key and closes the gap, so that no search ends there.
func (t *keyTable) Remove(key uint32) {
	mask := uint32(len(t.Slots) - 1)
	i := t.Home(key)
	for t.Slots[i&mask].Key != key || t.Slots[i&mask].M == nil {
		if t.Slots[i&mask].M == nil {
			return
		}
		i++
	}
	t.Used--
	for j := i + 1; ; j++ {
		s := t.Slots[j&mask]
		if s.M == nil {
			break
		}
		// The slot s moves into the gap, unless its home is between the gap and s, or is
		// s itself: a search for its key would then never look into the gap.
		if (j-t.Home(s.Key))&mask >= (j-i)&mask {
			t.Slots[i&mask] = s
			i = j
		}
	}
	t.Slots[i&mask] = KeySlot{}
}
