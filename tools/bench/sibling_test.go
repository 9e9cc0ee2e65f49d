package bench

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// speedsOf returns the slices of a probe: the first n at one speed, the others at another.
func speedsOf(n int, some, others float64) []float64 {
	return append(slices.Repeat([]float64{some}, n), slices.Repeat([]float64{others}, probeSlices-n)...)
}

// The speeds are those that a core had beside a quiet sibling (4.6) and beside a busy one (2.6).
func TestJudgeOfSiblings(t *testing.T) {
	const quiet, busy = 4.6, 2.6
	for name, c := range map[string]struct {
		known  float64 // speed beside a quiet sibling, as known so far
		speeds []float64
		want   float64
	}{
		"quiet":                             {quiet, speedsOf(0, 0, quiet), 1},
		"quiet, and nothing is known":       {0, speedsOf(0, 0, quiet), 1},
		"busy":                              {quiet, speedsOf(0, 0, busy), quiet / busy},
		"busy all the time so far":          {3.2, speedsOf(0, 0, busy), 3.2 / busy},
		"busy for half of the slices":       {quiet, speedsOf(36, busy, quiet), (36*quiet/busy + 28) / 64},
		"the quiet half tells":              {3.2, speedsOf(36, busy, quiet), (36*quiet/busy + 28) / 64},
		"some slices were interrupted":      {quiet, speedsOf(40, 1.5, quiet), 1},
		"all slices were interrupted":       {quiet, speedsOf(0, 0, 1.5), 1},
		"a frequency that rises":            {quiet, speedsOf(7, 5.1, quiet), (7*quiet/5.1 + 57) / 64},
		"a probe faster than those before":  {3.2, speedsOf(0, 0, quiet), 1},
		"another frequency, by inexactness": {quiet, speedsOf(0, 0, 4.58), quiet / 4.58},
	} {
		w := watched{quiet: c.known}
		got := w.slowdown(c.speeds)
		assert.InDelta(t, c.want, got, 1e-9, name)
		p := pairOf{slowdown: got}
		assert.Equal(t, strings.Contains(name, "busy") || strings.Contains(name, "half"), p.beside(), name)
		assert.Equal(t, p.beside(), p.lost() > tooMuch, name)
	}
	w := watched{}
	w.slowdown(speedsOf(0, 0, busy))
	assert.Less(t, w.slowdown(speedsOf(0, 0, busy)), busySibling, "nothing to compare with")
	w.slowdown(speedsOf(0, 0, quiet))
	assert.Greater(t, w.slowdown(speedsOf(0, 0, busy)), busySibling, "compared with the better probe")
}

// A run beside a busy sibling is repeated. Among such runs, the one with the smallest slowdown
// is used.
func TestRunsBesideABusySibling(t *testing.T) {
	for name, c := range map[string]struct {
		slowdowns []float64
		want      float64
		retaken   int
	}{
		"the first is quiet":  {[]float64{1.01, 1.4}, 1.01, 0},
		"the second is quiet": {[]float64{1.4, 1.02}, 1.02, 1},
		"none is quiet":       {[]float64{1.4, 1.2, 1.9}, 1.2, 2},
	} {
		next := 0
		got, retaken, err := undisturbed(context.Background(), 3, func() ([]pairOf, error) {
			next++
			return []pairOf{{slowdown: c.slowdowns[next-1]}}, nil
		}, mostLost)
		require.NoError(t, err)
		assert.Equal(t, c.want, got[0].slowdown, name)
		assert.Equal(t, c.retaken, retaken, name)
	}
}

func TestStateOfSiblings(t *testing.T) {
	s := &siblings{cores: []watched{{cpu: 0, quiet: 4.5}, {cpu: 1, quiet: 4.25}}}
	assert.Nil(t, s.state(nil))
	assert.Nil(t, (*siblings)(nil).state(nil))
	assert.Equal(t, "siblings: quiet", s.state([]float64{1, 1.14}).String())
	busy := s.state([]float64{1, 1.5, 1.25})
	assert.Equal(t, "siblings: 2 of 3 runs beside a busy sibling (additions took up to 1.50 times as long as beside a quiet one)", busy.String())
	b, err := json.Marshal(busy)
	require.NoError(t, err)
	assert.JSONEq(t, `{"runs":3,"busy":2,"worst":1.5,"quiet_adds_per_cycle":[4.5,4.25]}`, string(b))

	table := Table{Siblings: busy, Rows: []Row{newRow(spec{name: "a"}, []pairOf{{slowdown: 1.5}, {slowdown: 1}}, 0)}}
	assert.Equal(t, []float64{1.5, 1}, table.Rows[0].Slowdowns.Samples)
	assert.Equal(t, 1, table.Rows[0].Disturbed)
	assert.Contains(t, table.remarks(), busy.String())
	assert.Nil(t, newRow(spec{name: "b"}, []pairOf{{}}, 0).Slowdowns)
}

// The loops do the work that a probe divides their time by.
func TestLoopsOfProbes(t *testing.T) {
	const k, m, rounds = 7, 5, 3
	want := uint64(0)
	for i := range uint64(8) {
		v := k + i
		for range rounds * addsInRound / 8 / 2 {
			v = (v + k) ^ m
		}
		want ^= v
	}
	assert.Equal(t, want, adds(rounds, k, m))
	product := uint64(k)
	for range rounds * multipliesInRound {
		product *= k
	}
	assert.Equal(t, product, multiplies(rounds, k))
}

// A core makes between a half and 16 additions in a cycle. Slices in which it was interrupted
// are slower. The race detector makes no difference, because the loops use no memory.
func TestProbe(t *testing.T) {
	cpus, err := AllowedCPUs()
	require.NoError(t, err)
	s, err := watch(cpus[0])
	require.NoError(t, err)
	assert.Greater(t, s.cores[0].quiet, 0.5)
	assert.Less(t, s.cores[0].quiet, 16.0)
	speeds := probe(nil)
	assert.Len(t, speeds, probeSlices)
	for _, v := range speeds {
		assert.Positive(t, v)
	}

	// A pair gets the slowdown of the probes around it.
	pairs, err := s.around(func() ([]pairOf, error) { return []pairOf{{}, {}}, nil })()
	require.NoError(t, err)
	assert.Greater(t, pairs[0].slowdown, 0.5)
	assert.Equal(t, pairs[0].slowdown, pairs[1].slowdown)
	_, err = s.around(func() ([]pairOf, error) { return nil, errors.New("no") })()
	assert.EqualError(t, err, "no")
	_, err = watch(1 << 12)
	assert.ErrorContains(t, err, "core 4096")
}
