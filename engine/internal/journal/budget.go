//go:build linux && (amd64 || arm64)

package journal

import (
	"sync"
	"time"
)

// A Budget is a number of lines for each period of time. A user may have no more lines than
// it leaves for all other users. A user may have several speakers, and half of the budget is
// the most that they can have together. A speaker may have no more of this half than it
// leaves for the user's other speakers. So the lines of one user cannot keep the lines of
// another user out of the log. Lines that are held back are counted, and Take returns the
// count with the next line. Safe for concurrent use.
type Budget struct {
	limit  int
	period time.Duration
	clock  func() time.Duration // time since some moment, by a clock that cannot be set

	mu       sync.Mutex
	current  int64               // number of the period; 0: none yet
	written  int                 // lines in this period
	held     int                 // lines held back that were of users without an account
	accounts map[uint32]*account // by user
}

// An account belongs to a user that has written lines in this period or the last one.
type account struct {
	written int // lines written in this period
	held    int // lines held back that Take has not returned yet
}

// A Speaker is one of several parties, such as clients, whose lines count for the same user.
// Its zero value has written nothing. A nic.Speaker can be converted to a Speaker.
type Speaker struct {
	Span  int64 // number of the period that Spent is about
	Spent int   // lines in that period
}

// NewBudget returns a budget of limit lines in each period.
func NewBudget(limit int, period time.Duration) *Budget {
	start := time.Now()
	return &Budget{limit: limit, period: period, accounts: make(map[uint32]*account),
		clock: func() time.Duration { return time.Since(start) }}
}

// Take reports whether a line of a user may be written now. who is the speaker whose line it
// is, or nil. If the line may be written, held is the number of the user's lines that have
// been held back since its last line. held also includes the lines that were held back of
// users without an account, whichever user takes the next line.
func (b *Budget) Take(user uint32, who *Speaker) (held int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := int64(b.clock()/b.period) + 1; now != b.current {
		b.nextPeriod(now)
	}
	u, known := b.accounts[user], true
	if u == nil {
		u, known = &account{}, false
	}
	ok = u.written+1 <= b.limit-b.written-1
	if who != nil {
		if who.Span != b.current {
			*who = Speaker{Span: b.current}
		}
		ok = ok && who.Spent+1 <= b.limit/2-u.written-1
	}
	if !ok {
		if known {
			u.held++
		} else {
			b.held++ // giving each such user an account could take any amount of memory
		}
		return 0, false
	}
	b.accounts[user] = u
	b.written++
	u.written++
	if who != nil {
		who.Spent++
	}
	held = u.held + b.held
	u.held, b.held = 0, 0
	return held, true
}

// nextPeriod begins another period. It closes the accounts of users that have written
// nothing in the last period.
func (b *Budget) nextPeriod(now int64) {
	b.current, b.written = now, 0
	for user, u := range b.accounts {
		if u.written == 0 {
			b.held += u.held
			delete(b.accounts, user)
		}
		u.written = 0
	}
}

// SetClock makes the budget take the time from another clock, which begins at 0. For tests.
func (b *Budget) SetClock(clock func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = clock
}

// EndPeriod makes the next line begin another period. For tests.
func (b *Budget) EndPeriod() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clock := b.clock
	b.clock = func() time.Duration { return clock() + b.period }
}
