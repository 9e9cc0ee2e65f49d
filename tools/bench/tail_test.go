package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// timesOf returns a run whose operations took from, from+1, ..., from+n-1 ns.
func timesOf(t *testing.T, from, n int) pairOf {
	t.Helper()
	p := pairOf{floor: sample{value: 100}, device: sample{value: 200}, times: newTimes()}
	for i := range n {
		require.NoError(t, p.times.RecordValue(int64(from+i)))
	}
	return p
}

// Percentiles are those of all runs together. Those beyond which there are fewer than ten operations are left
// out.
func TestTail(t *testing.T) {
	assert.Nil(t, newTail([]pairOf{{}, {}}))
	tail := newTail([]pairOf{timesOf(t, 1, 500), timesOf(t, 501, 500)})
	assert.Equal(t, int64(1000), tail.Operations)
	assert.Equal(t, map[string]float64{"p50": 500, "p90": 900, "p99": 990}, tail.Percentiles)
	assert.Equal(t, 1000.0, tail.Max)
	assert.Positive(t, tail.Clock)
	assert.Positive(t, tail.Step)
	assert.Equal(t, "operations 1000 p50 500 p90 900 p99 990 p99.9 - p99.99 - longest 1000", tail.String())

	const runs, operations = 10, 10_000
	var all []pairOf
	for range runs {
		all = append(all, timesOf(t, 100, operations))
	}
	assert.Len(t, newTail(all).Percentiles, len(percentiles))
	assert.Len(t, newTail(all[1:]).Percentiles, len(percentiles)-1)
}

func TestTableOfTails(t *testing.T) {
	tail := &Tail{Operations: 200_000, Clock: 12.34, Step: 10, Percentiles: map[string]float64{"p50": 500, "p99.99": 9000}, Max: 12345}
	table := Table{Rows: []Row{
		newRow(spec{name: "a", unit: "Mops"}, []pairOf{{}}, 0),
		newRow(spec{name: "b", unit: "ns"}, []pairOf{{}}, 0),
	}}
	assert.Nil(t, table.Rows[0].Tail)
	var s strings.Builder
	require.NoError(t, table.Print(&s))
	assert.NotContains(t, s.String(), "p99.99")
	table.Rows[1].Tail = tail
	s.Reset()
	require.NoError(t, table.Print(&s))
	assert.Contains(t, s.String(), `
# single operations of all runs, in ns, each with one reading of the clock (12.3 ns, in steps of 10.0 ns); -: fewer than 10 operations are beyond it
row  operations  p50  p90  p99  p99.9  p99.99  longest
b    200000      500  -    -    -      9000    12345
`)
	s.Reset()
	require.NoError(t, table.PrintMarkdown(&s))
	assert.Contains(t, s.String(), `
| row | operations | p50 | p90 | p99 | p99.9 | p99.99 | longest |
|---|---|---|---|---|---|---|---|
| b | 200000 | 500 | - | - | - | 9000 | 12345 |
`)
}
