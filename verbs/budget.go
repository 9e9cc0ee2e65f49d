//go:build linux && (amd64 || arm64)

package verbs

import (
	"context"
	"log/slog"
	"time"

	"github.com/nicless/nicless/internal/nic"
)

// report logs something that a program did. Programs can cause any number of such lines, so
// the engine's budget bounds them: for each user, for each process of a user (speaker), and
// in all. Only the calling goroutine, which serves that program, waits for the log.
func (s *Server) report(uid uint32, speaker *nic.Speaker, level slog.Level, message string, args ...any) {
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	unsaid, ok := s.engine.MayLog(uid, speaker)
	if !ok {
		return
	}
	if unsaid > 0 {
		args = append(args, "unsaid", unsaid)
	}
	s.log.Log(context.Background(), level, message, args...)
}

// A budget bounds the lines for watchers about one program.
type budget struct {
	// Start of the current second; it has a reading of the monotonic clock, which is never set back.
	began time.Time
	spent int
	left  int // lines left out since the last one
}

// linesPerSecond is the most lines per second that the watchers get about one program. So many
// are enough to find out what is wrong with it.
const linesPerSecond = 50

// spend reports whether the watchers may get one more line, and counts it. more is for the end of the line:
// it says how many lines were left out before.
func (b *budget) spend() (more string, ok bool) {
	if b.began.IsZero() || time.Since(b.began) >= time.Second {
		b.began, b.spent = time.Now(), 0
	}
	b.spent++
	if b.spent > linesPerSecond {
		b.left++
		return "", false
	}
	more = leftOut(b.left)
	b.left = 0
	return more, true
}
