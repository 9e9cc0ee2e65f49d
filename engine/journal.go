package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A journal carries what the device says to a slog.Logger without ever waiting
// for it: the reader of the log may be slow, or gone, and the device serves others
// meanwhile. What does not fit is counted, and the count is said later.
type journal struct {
	log *slog.Logger // nil: nothing is said

	mu    sync.Mutex
	lines []line
	lost  int
	busy  chan struct{} // closed when the writer has no more to do; nil: there is none
}

type line struct {
	level slog.Level
	text  string
	attrs []any
}

// journalLines is how much may wait to be written.
const journalLines = 256

// takes reports whether lines of a level are written at all.
func (j *journal) takes(level slog.Level) bool {
	return j.log != nil && j.log.Enabled(context.Background(), level)
}

// say takes a line and returns at once. Safe for concurrent use. What a client can
// cause goes by Engine.report.
func (j *journal) say(level slog.Level, text string, attrs ...any) {
	if !j.takes(level) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == journalLines {
		j.lost++
		return
	}
	j.lines = append(j.lines, line{level, text, attrs})
	if j.busy == nil {
		j.busy = make(chan struct{})
		go j.write(j.busy)
	}
}

// write writes until nothing is left.
func (j *journal) write(done chan struct{}) {
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
			j.log.Log(context.Background(), l.level, l.text, l.attrs...)
		}
		if lost > 0 {
			j.log.Warn("the log was too slow", "unsaid", lost)
		}
	}
}

// flush waits until everything said so far has been written, at most for d.
func (j *journal) flush(d time.Duration) {
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

// FlushLog waits until what the device has said so far has been written to the
// log, at most for d. Safe for concurrent use.
func (e *Engine) FlushLog(d time.Duration) { e.journal.flush(d) }
