//go:build linux && (amd64 || arm64)

package engines

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
)

// A speaker copies the lines that an engine prints to the log, with the engine's devices.
type speaker struct {
	log     *slog.Logger
	devices []int

	mu   sync.Mutex
	rest []byte
	last string // line that says why the engine has ended
}

// longestLine is how many bytes of a line are kept.
const longestLine = 4096

func (s *speaker) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for part := range bytes.Lines(b) {
		s.rest = append(s.rest, part[:min(len(part), longestLine-len(s.rest))]...)
		if part[len(part)-1] == '\n' {
			s.line(strings.TrimSpace(string(s.rest)))
			s.rest = s.rest[:0]
		}
	}
	return len(b), nil
}

func (s *speaker) line(text string) {
	if reason, ok := strings.CutPrefix(text, "nicless: error: "); ok {
		s.last = reason
	}
	s.log.Info("engine", "devices", s.devices, "says", text)
}

// reason returns what the engine has said about its end, as an error; nil: nothing.
func (s *speaker) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == "" {
		return nil
	}
	return errors.New(s.last)
}
