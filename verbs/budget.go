package verbs

import (
	"context"
	"log/slog"
	"time"

	"github.com/nicless/nicless/engine"
)

// report logs what programs do. That costs them nothing, so lines are counted by the
// engine's budget for the log: for each user, for each of its programs, which is who,
// and in all. The caller writes to the log: nobody else waits.
func (s *Server) report(uid uint32, who *engine.Speaker, level slog.Level, what string, args ...any) {
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	unsaid, ok := s.engine.MaySay(uid, who)
	if !ok {
		return
	}
	if unsaid > 0 {
		args = append(args, "unsaid", unsaid)
	}
	s.log.Log(context.Background(), level, what, args...)
}

// A budget bounds what a program can have told to its watchers, which are programs of
// its own user.
type budget struct {
	began time.Time // with the reading of the monotonic clock: nobody sets that
	spent int
}

// linesPerSecond is enough to see what is wrong with a program.
const linesPerSecond = 50

// spend reports whether another may be told.
func (b *budget) spend() bool {
	if b.began.IsZero() || time.Since(b.began) >= time.Second {
		*b = budget{began: time.Now()}
	}
	b.spent++
	return b.spent <= linesPerSecond
}
