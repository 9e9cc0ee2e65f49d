package reason

import "sync"

// Most is how many reasons are kept. A completion with an error that is not asked for its reason until 4096
// others have failed is rare; a kept reason takes less than 1 KiB.
const Most = 4096

// kept has the newest reasons of completions that this process has polled. A completion refers to its reason
// by a number, because completions are copied without end: a pointer in each would cost every good one.
var kept struct {
	mu   sync.Mutex
	last uint32
	ring []Kept
}

// A Kept is what a poller has found about an error completion.
type Kept struct {
	number  uint32
	Reason  *Reason  // nil: none
	Overrun bool     // the ring has overwritten it
	Entries uint64   // how many reasons the ring holds
	Stack   []string // where the work request was posted; nil: not known
}

// Keep keeps k and returns its number, never 0. Safe for concurrent use.
func Keep(k Kept) uint32 {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.ring == nil {
		kept.ring = make([]Kept, Most)
	}
	kept.last++
	if kept.last == 0 {
		kept.last = 1
	}
	k.number = kept.last
	kept.ring[k.number%Most] = k
	return k.number
}

// Get returns what Keep has kept under a number. ok is false if others have taken its place. Safe for
// concurrent use.
func Get(number uint32) (k Kept, ok bool) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.ring == nil || number == 0 {
		return Kept{}, false
	}
	k = kept.ring[number%Most]
	return k, k.number == number
}
