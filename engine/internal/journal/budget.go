//go:build linux && (amd64 || arm64)

package journal

import (
	"sync"
	"time"
)

// A Budget is a number of lines for each period of time. A user may have no more lines than
// the user leaves for everybody else, and of the user's part a speaker no more than it leaves
// for the user's other speakers. So lines of one user cannot keep another's from the log.
// Lines that are held back are counted, and the count is said with the next line. Safe for
// concurrent use.
type Budget struct {
	limit  int
	period time.Duration
	clock  func() time.Duration // time since some moment, by a clock that cannot be set

	mu       sync.Mutex
	current  int64               // number of the period; 0: none yet
	written  int                 // lines in this period
	held     int                 // lines held back of users without an account
	accounts map[uint32]*account // by user
}

// An account is of a user that has written lines in this period or the last one.
type account struct {
	written int // in this period
	held    int // not yet said
}

// A Speaker is one of several parties whose lines count against one user, such as a client.
// Its zero value has written nothing. nic.Speaker converts to it.
type Speaker struct {
	Span  int64 // number of the period that Spent is about
	Spent int   // lines in that period
}

// NewBudget returns a budget of so many lines in each period.
func NewBudget(limit int, period time.Duration) *Budget {
	start := time.Now()
	return &Budget{limit: limit, period: period, accounts: make(map[uint32]*account),
		clock: func() time.Duration { return time.Since(start) }}
}

// Take reports whether a line of a user, and of a speaker unless that is nil, may be
// written now, and if so, how many lines of the user have been held back since the last
// one; lines of users without an account are added to the next line of any user.
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
			b.held++ // an account for every user could cost any amount of memory
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

// nextPeriod begins another period. It closes accounts of users that have written nothing
// in the last one.
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

// SetClock has the budget take the time from a clock that begins at 0. For tests.
func (b *Budget) SetClock(clock func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = clock
}

// EndPeriod has the next line begin another period. For tests.
func (b *Budget) EndPeriod() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clock := b.clock
	b.clock = func() time.Duration { return clock() + b.period }
}
