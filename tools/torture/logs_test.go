package torture

import (
	"testing"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/stretchr/testify/require"
)

// Log output is counted, and too much of it is a fault.
func TestLogIsBounded(t *testing.T) {
	lines := int64(0)
	// the second has 59 lines, then there is another one
	m := &logMeter{clock: func() int64 { lines++; return lines / 60 }}
	line := make([]byte, 999)
	line = append(line, '\n')
	for range 100 {
		_, _ = m.Write(line)
	}
	l := m.total()
	require.EqualValues(t, 100, l.Lines)
	require.EqualValues(t, 100_000, l.Bytes)
	require.EqualValues(t, 59_000, l.Most)

	r := run{result: Result{Count: Count{Log: Log{Most: logBound}}}}
	r.conclude()
	require.True(t, r.result.OK())
	r.result.Log.Most++
	r.conclude()
	require.Equal(t, verdict.Failed, r.result.Verdict)
	require.Len(t, r.result.Faults, 1)
}
