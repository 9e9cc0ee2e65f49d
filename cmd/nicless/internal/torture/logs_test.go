package torture

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Log output is counted, and too much of it is a fault.
func TestLogIsBounded(t *testing.T) {
	m := new(logMeter)
	line := make([]byte, 999)
	line = append(line, '\n')
	for range 100 {
		_, _ = m.Write(line)
	}
	l := m.total()
	require.EqualValues(t, 100, l.Lines)
	require.EqualValues(t, 100_000, l.Bytes)
	require.LessOrEqual(t, l.Most, l.Bytes)
	require.GreaterOrEqual(t, l.Most, l.Bytes/2, "a second ends at most once in so short a time")

	r := Result{Count: Count{Log: Log{Most: logBound}}}
	r.judge()
	require.True(t, r.OK())
	r.Log.Most++
	r.judge()
	require.False(t, r.OK())
	require.Len(t, r.Faults, 1)
}
