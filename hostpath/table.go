package hostpath

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/ring"
)

// A QP holds the queues of a queue pair, by which a poller makes sense of its CQEs.
// It is not changed once it is in a Table.
type QP struct {
	SQ  *SendRing // nil: no send queue
	RQ  *RQ       // nil: receives come from SRQ, or there are none
	SRQ *SRQ      //
	QPN uint32    // CQEs of another number are left over from an earlier user of the index
}

// A Table finds QPs by user index, the number that the client gives a QP at
// its creation and that its CQEs carry (CQE version 1). The zero Table is
// empty and ready to use. Its methods are safe for concurrent use; looking up
// takes no lock.
type Table struct {
	slots atomic.Pointer[[]atomic.Pointer[QP]]

	mu   sync.Mutex
	used []bool // by index: handed out by Alloc
}

// Alloc returns the lowest user index that is not in use. Its slot is empty,
// so that CQEs with it are skipped, until Set.
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

// grow makes room for twice as many QPs. Pollers may go on with the old slots: they
// hold the same QPs, and a QP that is set later is looked up anew.
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

// Set makes CQEs with user index i belong to qp. It must be done before the QP
// may complete anything. i comes from Alloc.
func (t *Table) Set(i uint32, qp *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[i].Store(qp)
}

// Free gives index i back. CQEs with it are skipped from now on.
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

// findQPN returns the user index of the QP of that number, which is often the
// one at hint, and the hint for next time. Without such a QP it is an index
// that no QP has.
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
