package verbs

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/stretchr/testify/require"
)

// lockedText collects a log that several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The log of calls, and the explanation of a refused one, have the fields of firmware commands.
func TestLogHasFirmwareCommands(t *testing.T) {
	p := newDEVXProgram(t)
	var text lockedText
	p.s.log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p.ok(p.general(command(0x760, 0, 3<<16), 0x30))
	require.Contains(t, text.String(), `result=ok`)
	require.Contains(t, text.String(), `firmware="QUERY_ROCE_ADDRESS roce_address_index=0x3"`)
	require.NotContains(t, text.String(), "the command")

	fails(t, devx.StatusBadParameter, p.general(command(0x760, 7, gidTableSize<<16, 1), 0x30))
	const cmd = "QUERY_ROCE_ADDRESS op_mod=0x7 roce_address_index=0x40 unknown: 0xc bit 0"
	require.Contains(t, text.String(), `result=EREMOTEIO`)
	require.Contains(t, text.String(), `firmware="`+cmd+`"`)
	require.Contains(t, text.String(), "; the command: "+cmd+`"`)

	require.NotZero(t, p.regUmem(0, 0, 0).errno, "a refused call without a command")
	require.Equal(t, 2, strings.Count(text.String(), "firmware="))
	require.Equal(t, 1, strings.Count(text.String(), "; the command: "))
	require.Equal(t, 2, strings.Count(text.String(), "verbs refused"))
}
