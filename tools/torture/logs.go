//go:build linux && (amd64 || arm64)

package torture

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// logBound is the most bytes that an engine may write to its log within a second, whatever its
// clients do. A client that could flood the log would hide other entries and fill the disk.
const logBound = 64 << 10

// A Log counts what an engine has logged.
type Log struct {
	Lines uint64 `json:"lines"`
	Bytes uint64 `json:"bytes"`
	Most  uint64 `json:"most_bytes_in_a_second"`
}

func (l *Log) add(o Log) {
	l.Lines += o.Lines
	l.Bytes += o.Bytes
	l.Most = max(l.Most, o.Most)
}

// A logMeter counts what is written to a log.
type logMeter struct {
	mu     sync.Mutex
	log    Log
	second int64        // unix time
	clock  func() int64 // unix time; nil: that of this machine
	bytes  uint64
}

// logger returns a logger that writes text, as that of nicless engine does.
func (m *logMeter) logger() *slog.Logger { return slog.New(slog.NewTextHandler(m, nil)) }

// Write implements io.Writer.
func (m *logMeter) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().Unix()
	if m.clock != nil {
		now = m.clock()
	}
	if now != m.second {
		m.second, m.bytes = now, 0
	}
	n := uint64(len(b))
	m.bytes += n
	m.log.Bytes += n
	m.log.Lines += uint64(bytes.Count(b, []byte("\n")))
	m.log.Most = max(m.log.Most, m.bytes)
	return len(b), nil
}

func (m *logMeter) total() Log {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log
}
