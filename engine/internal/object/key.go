//go:build linux && (amd64 || arm64)

package object

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// An Mkey is the object that an lkey or rkey names. It is a range of a client's memory, a
// memory window on such a range, or a list of ranges under other keys. A key has 24 bits of
// index and 8 bits of variant, and all 32 bits must match.
type Mkey struct {
	Key    uint32
	Access uint32 // control.Access*
	PD     *PD    // nil for windows: a window's pd is in window, see serves
	Base   uint64 // address of the first byte of the range, as work requests give it
	Size   uint64
	Mem    []byte // the range in the device's mapping; nil for lists, for free keys, and for unmapped memory
	Client *Client

	Region   *Region // if the key is of registered memory: the region of that memory; otherwise nil
	From     uint64  // if the key is of registered memory or a bound window: address of the range in the client
	Windows  int     // number of windows that are bound to this key's memory
	List     []Run   // if the key is a list: its entries; the capacity is the value of the field room
	PerRound uint64  // if the key is a list: bytes of all entries in one round
	Rounds   uint64  // if the key is a list: number of rounds through its entries; 1 unless the list is interleaved

	Changed uint64 // epoch in which the memory or the rights of this key last changed
	Looked  uint64 // if the key is a list: epoch in which LastChange last read the entries to update the field changed

	Window *Window // if the key is a memory window: what only windows have; otherwise nil
	Free   bool    // a window that is not bound, or a list that is not filled
	Inval  bool    // if the key is a list: a peer may empty it (SEND with invalidate)
	Room   int     // if the key is a list: the largest number of entries that it may have; otherwise 0

	Process  *Process // if the memory is unmapped: the process that has it; otherwise nil
	Unmapped bool     // if the key is a list: some of its memory is unmapped
}

// A Run is one entry of a list: n bytes at addr under another key. An interleaved list
// repeats its entries in rounds. From one round to the next, the address of the n bytes grows
// by stride.
type Run struct {
	Key    uint32
	Addr   uint64
	N      uint64
	Stride uint64
	Found  *Mkey // the mkey that key named when the work request was judged
}

// A Window holds what only an mkey that is a memory window has.
type Window struct {
	Kind   uint8 // 1 or 2
	PD     *PD
	QPN    uint32 // if bound and of type 2: number of the QP that the window belongs to
	Serial uint64 // if bound and of type 2: serial of that QP, whose number another QP may get later
	Parent *Mkey  // if bound: the key of the memory that the window opens; otherwise nil
}

// Serves reports whether p, as a responder, may give access by the key k. The protection
// domain of k (for a window, that of k.window) must be p's, and a window of type 2 must be
// bound to p itself. k.pd is nil if k is a window, so that local access by the key of a window
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

// A keyTable finds an mkey by the 32 bits of its key. It is a hash table with open
// addressing and linear probing, at most half full. The index of a key is random, so that
// no client can guess the keys of another. For random indices a plain array would need 2^24
// entries, which is too large.
type keyTable struct {
	Slots  []KeySlot
	shift  uint // 32 - log2 of len(slots)
	Used   int
	random io.Reader
}

type KeySlot struct {
	Key uint32 // rekey changes it while other shards search
	M   *Mkey  // nil: the slot is empty
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
		if index := key >> 8; index <= control.NullKey>>8 || index == repeatIndex || index == 0xffffff || t.FindIndex(key) != nil {
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
