package engine

import (
	"log/slog"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/nic"
)

// Clients cause lines in the log, which cost them nothing: so lines are counted. There
// is a limit for each span of time. A user may have no more of them than it leaves for
// everybody else, and of the user's part a client no more than it leaves for the user's
// others. Lines that are held back are counted, and the count is said with the next
// one.

// A lines is such a budget. Safe for concurrent use.
type lines struct {
	most int
	span time.Duration
	past func() time.Duration // since some moment, by a clock that nobody sets

	mu    sync.Mutex
	now   int64 // number of the span; 0: none yet
	spent int
	held  int                // of users that have no account
	users map[uint32]*speech // by who pays
}

// A speech is what one user has said in this span.
type speech struct{ spent, held int }

// Connections come and go some 20,000 times a second. Explanations are for people who
// look for a mistake, and are already held back for each client and code.
func connectionLines() *lines  { return newLines(256, 10*time.Second) }
func explanationLines() *lines { return newLines(logBudget, time.Second) }

func newLines(most int, span time.Duration) *lines {
	start := time.Now()
	return &lines{most: most, span: span, users: make(map[uint32]*speech), past: func() time.Duration { return time.Since(start) }}
}

// spend reports whether a line about a user, and a speaker unless that is nil, may
// be written now, and how many have been held back since the last one.
func (l *lines) spend(user uint32, who *nic.Speaker) (unsaid int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := int64(l.past()/l.span) + 1; now != l.now {
		l.turn(now)
	}
	u, known := l.users[user], true
	if u == nil {
		u, known = &speech{}, false
	}
	ok = u.spent+1 <= l.most-l.spent-1
	if who != nil {
		if who.Span != l.now {
			*who = nic.Speaker{Span: l.now}
		}
		ok = ok && who.Spent+1 <= l.most/2-u.spent-1
	}
	if !ok {
		if known {
			u.held++
		} else {
			l.held++ // an account for each could cost any amount
		}
		return 0, false
	}
	l.users[user] = u
	l.spent++
	u.spent++
	if who != nil {
		who.Spent++
	}
	unsaid = u.held + l.held
	u.held, l.held = 0, 0
	return unsaid, true
}

// turn begins another span. Accounts of users that have said nothing in the last
// one are closed.
func (l *lines) turn(now int64) {
	l.now, l.spent = now, 0
	for user, u := range l.users {
		if u.spent == 0 {
			l.held += u.held
			delete(l.users, user)
		}
		u.spent = 0
	}
}

// maySay is nic.Device's MaySay. All servers of the device share one budget.
func (e *Engine) maySay(uid uint32, who *nic.Speaker) (unsaid int, ok bool) {
	return e.spoken.spend(e.shares.payer(uid), who)
}

// report writes a line about a user's connection into the log, unless there have
// been too many.
func (e *Engine) report(uid uint32, level slog.Level, text string, attrs ...any) {
	if !e.journal.takes(level) {
		return
	}
	unsaid, ok := e.maySay(uid, nil)
	if !ok {
		return
	}
	if unsaid > 0 {
		attrs = append(attrs, "unsaid", unsaid)
	}
	e.journal.say(level, text, attrs...)
}
