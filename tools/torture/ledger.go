//go:build linux && (amd64 || arm64)

package torture

// A Ledger accounts for the work requests of one queue. Each work request must complete exactly
// once, in the order of posting. Work requests are numbered from 0 in that order.
type Ledger struct {
	// Wrong has the counts that must stay zero.
	Wrong

	head, tail uint64 // work requests head to tail-1 are posted and have not completed
	signaled   []bool // whether a work request is signaled, by its number modulo the length
	skipped    map[uint64]struct{}
	failed     bool // an error has been reported: everything later is flushed
}

// Wrong counts errors in the completions of a queue.
type Wrong struct {
	Lost       uint64 `json:"lost"`       // completions that did not come
	Duplicated uint64 `json:"duplicated"` // completions of work that was not posted or had already completed
	Reordered  uint64 `json:"reordered"`  // completions that came after those of later work
}

func (w *Wrong) add(o Wrong) {
	w.Lost += o.Lost
	w.Duplicated += o.Duplicated
	w.Reordered += o.Reordered
}

// An Outcome is how a work request ended.
type Outcome uint8

// Outcomes.
const (
	Done    Outcome = iota
	Failed          // executed, with an error
	Flushed         // not executed
)

// NewLedger returns the account of a queue in which at most depth work requests
// are outstanding.
func NewLedger(depth int) *Ledger {
	return &Ledger{signaled: make([]bool, depth), skipped: make(map[uint64]struct{})}
}

// Room returns how many work requests may be posted now.
func (l *Ledger) Room() int { return len(l.signaled) - l.Outstanding() }

// Outstanding returns how many work requests have not completed.
func (l *Ledger) Outstanding() int { return int(l.tail - l.head) }

// Oldest returns the number of the oldest work request that has not completed.
func (l *Ledger) Oldest() uint64 { return l.head }

// Post notes a work request and returns its number. A work request that is not signaled gets no
// completion; it has completed when a later one does.
func (l *Ledger) Post(signaled bool) uint64 {
	if l.Room() == 0 {
		panic("torture: ledger is full")
	}
	l.signaled[l.tail%uint64(len(l.signaled))] = signaled
	l.tail++
	return l.tail - 1
}

// Complete notes a completion. It ends the work requests from first to number: number itself
// with outcome o, and those before it successfully. If the completion is wrong, it ends none
// and ok is false.
func (l *Ledger) Complete(number uint64, o Outcome) (first uint64, ok bool) {
	_, late := l.skipped[number]
	switch {
	case late:
		delete(l.skipped, number)
		l.Lost--
		l.Reordered++
		return 0, false
	case number < l.head || number >= l.tail:
		l.Duplicated++
		return 0, false
	}
	first = l.head
	for n := first; n < number; n++ {
		// Before an error, unsignaled work has succeeded. After an error, all work gets a
		// completion.
		if l.failed || l.signaled[n%uint64(len(l.signaled))] {
			l.skipped[n] = struct{}{}
			l.Lost++
		}
	}
	switch {
	case o == Done && !l.signaled[number%uint64(len(l.signaled))]:
		l.Duplicated++
	case l.failed && o != Flushed:
		l.Reordered++ // it was executed although work before it was not
	}
	l.failed = l.failed || o != Done
	l.head = number + 1
	return first, true
}

// End closes the account of a queue from which no more completions come. Signaled work that is
// still outstanding is lost.
func (l *Ledger) End() {
	for ; l.head < l.tail; l.head++ {
		if l.failed || l.signaled[l.head%uint64(len(l.signaled))] {
			l.Lost++
		}
	}
}

// Abandon closes the account of a queue whose device is gone.
func (l *Ledger) Abandon() { l.head = l.tail }
