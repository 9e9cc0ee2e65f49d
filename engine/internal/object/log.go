//go:build linux && (amd64 || arm64)

package object

import (
	"log/slog"
	"time"

	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/internal/nic"
)

// The device's log is Config.Log, behind a journal that never waits for it. Clients can
// cause lines in the log at no cost to themselves. So there are two budgets of lines: one
// for lines about connections, one for explanations. A user can use up only a part of a
// budget, and a client only a part of its user's part.

// connectionLines returns the budget of lines about connections. Without a budget there
// could be very many lines, because 20,000 connections may come and go in a second.
func connectionLines() *journal.Budget { return journal.NewBudget(256, 10*time.Second) }

// explanationLines returns the budget of explanations. They are for people who look for a
// mistake. Their number has been limited already for each client and code.
func explanationLines() *journal.Budget { return journal.NewBudget(LogBudget, time.Second) }

// MayLog implements nic.Device. All servers of the device share one budget.
func (e *Device) MayLog(uid uint32, who *nic.Speaker) (unsaid int, ok bool) {
	return e.Spoken.Take(e.Ledger.Payer(uid), (*journal.Speaker)(who))
}

// Report writes a line about a user's connection to the log, unless the budget is used up.
func (e *Device) Report(uid uint32, level slog.Level, text string, attrs ...any) {
	if !e.Journal.Enabled(level) {
		return
	}
	unsaid, ok := e.MayLog(uid, nil)
	if !ok {
		return
	}
	if unsaid > 0 {
		attrs = append(attrs, "unsaid", unsaid)
	}
	e.Journal.Log(level, text, attrs...)
}
