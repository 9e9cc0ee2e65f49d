package hostpath

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/ring"
)

// A QP contains the queues of a queue pair. A poller needs them to interpret the CQEs of the
// queue pair. A QP does not change once it is in a Table.
type QP struct {
	SQ  *SendRing // nil: no send queue
	RQ  *RQ       // nil: receives come from SRQ, or the QP takes none
	SRQ *SRQ      // nil: receives come from RQ, or there are none
	QPN uint32    // CQEs with another QPN are left over from a QP that had the same user index earlier
}

// A Table finds QPs by user index. The client gives each QP a user index when it makes the
// QP, and the CQEs of the QP contain it (CQE version 1). The zero Table is empty and ready
// to use. Its methods are safe for concurrent use. Lookups take no lock.
type Table struct {
	slots atomic.Pointer[[]atomic.Pointer[QP]]

	mu   sync.Mutex
	used []bool // indexed by user index: true from Alloc until Free
}

// Alloc returns the lowest user index that is not in use. Pollers skip CQEs with this index
// until Set is called for it.
func (t *Table) Alloc() (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, used := range t.used {
		if !used {
			t.used[i] = true
			return uint32(i), nil
		}
	}
	if len(t.used) > ring.Mask24 {
		return 0, fmt.Errorf("hostpath: %d user indices in use, all there are", len(t.used))
	}
	t.used = append(t.used, true)
	if i := len(t.used) - 1; t.slots.Load() == nil || i >= len(*t.slots.Load()) {
		t.grow()
	}
	return uint32(len(t.used) - 1), nil
}

// grow makes room for twice as many QPs. Pollers may continue to use the old slots for a
// while. The old slots contain the same QPs, and a lookup of a QP that is set later loads
// the new slots.
func (t *Table) grow() {
	var old []atomic.Pointer[QP]
	if p := t.slots.Load(); p != nil {
		old = *p
	}
	slots := make([]atomic.Pointer[QP], max(16, 2*len(old)))
	for i := range old {
		slots[i].Store(old[i].Load())
	}
	t.slots.Store(&slots)
}

// Set makes CQEs with user index i belong to qp. i is an index that Alloc has returned. Call
// Set before the QP can have completions.
func (t *Table) Set(i uint32, qp *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[i].Store(qp)
}

// Free gives user index i back. From then on pollers skip CQEs with this index.
func (t *Table) Free(i uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[i].Store(nil)
	t.used[i] = false
}

// find returns the QP of a user index, or nil.
func (t *Table) find(i uint32) *QP {
	p := t.slots.Load()
	if p == nil || uint64(i) >= uint64(len(*p)) {
		return nil
	}
	return (*p)[i].Load()
}

// findQPN returns the user index of the QP whose number is qpn, and a hint to pass to the next
// call. It first tries the index in hint, which is often the right one. If there is no such
// QP, it returns an index that no QP has.
func (t *Table) findQPN(qpn, hint uint32) (index, next uint32) {
	if qp := t.find(hint); qp != nil && qp.QPN == qpn {
		return hint, hint
	}
	p := t.slots.Load()
	for i := 0; p != nil && i < len(*p); i++ {
		if qp := (*p)[i].Load(); qp != nil && qp.QPN == qpn {
			return uint32(i), uint32(i)
		}
	}
	return ring.Mask24 + 1, hint
}
