//go:build linux && (amd64 || arm64)

// Package journal writes the device's log. A Journal writes lines to a slog.Logger without
// ever waiting for it, and a Budget bounds how many lines users can cause.
//
// Files, in reading order:
//
//	journal.go  a queue of lines for a logger that may be slow
//	budget.go   how many lines all users, one user and one speaker may cause
//
// A line that is not written because a budget is used up is held back. A line that is not
// written because the logger is too slow is lost. Lines of both kinds are counted, and a
// later line says how many there were.
package journal

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Journal passes lines to a slog.Logger and never waits for it, because the reader of the
// log may be slow, or gone, and the device still has to serve its clients. Lines for which
// there is no room are lost and counted, and the count is written later. Safe for concurrent
// use.
type Journal struct {
	logger *slog.Logger // nil: lines are discarded

	mu    sync.Mutex
	lines []line
	lost  int           // lines lost since the last line that said so
	busy  chan struct{} // closed when the writer goroutine ends; nil: no such goroutine
}

type line struct {
	level slog.Level
	text  string
	attrs []any
}

// Capacity is how many lines may wait to be written.
const Capacity = 256

// New returns a Journal that writes to logger. If logger is nil, the Journal discards every line.
func New(logger *slog.Logger) *Journal { return &Journal{logger: logger} }

// Discards reports whether there is no logger.
func (j *Journal) Discards() bool { return j.logger == nil }

// Enabled reports whether the logger takes lines of a level.
func (j *Journal) Enabled(level slog.Level) bool {
	return j.logger != nil && j.logger.Enabled(context.Background(), level)
}

// Log writes a line, as the method Log of slog.Logger does, but returns at once. It checks no
// Budget. For lines that a client can cause, the caller checks a Budget first.
func (j *Journal) Log(level slog.Level, text string, attrs ...any) {
	if !j.Enabled(level) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == Capacity {
		j.lost++
		return
	}
	j.lines = append(j.lines, line{level, text, attrs})
	if j.busy == nil {
		j.busy = make(chan struct{})
		go j.write(j.busy)
	}
}

// write is the writer goroutine. It writes until no line is left.
func (j *Journal) write(done chan struct{}) {
	defer close(done)
	for {
		j.mu.Lock()
		lines, lost := j.lines, j.lost
		j.lines, j.lost = nil, 0
		if len(lines) == 0 {
			j.busy = nil
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		for _, l := range lines {
			j.logger.Log(context.Background(), l.level, l.text, l.attrs...)
		}
		if lost > 0 {
			j.logger.Warn("the log was too slow", "unsaid", lost)
		}
	}
}

// Flush waits until all lines passed to Log so far have been written, but at most for d.
func (j *Journal) Flush(d time.Duration) {
	j.mu.Lock()
	busy := j.busy
	j.mu.Unlock()
	if busy == nil {
		return
	}
	select {
	case <-busy:
	case <-time.After(d):
	}
}

// Lost returns how many lines have been lost without a line in the log that says so. For
// tests.
func (j *Journal) Lost() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}
