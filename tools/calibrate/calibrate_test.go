//go:build linux && (amd64 || arm64)

package calibrate

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/tools/internal/cores"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoCores skips a test on a machine where Run returns an error because it has one core.
func twoCores(t *testing.T) {
	t.Helper()
	cpus, err := cores.Allowed()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("one core only")
	}
}

func TestRunMeasuresEverything(t *testing.T) {
	twoCores(t)
	r, err := Run(t.Context(), Options{Cores: [2]int{-1, -1}, Budget: 100 * time.Millisecond})
	require.NoError(t, err)
	assert.Regexp(t, `^.+, cores \d+ and \d+, Linux .+, (not virtual|virtual machine)$`, r.Machine)

	var prices, floors []string
	for _, s := range r.Prices {
		prices = append(prices, s.Name)
		assert.NotEmpty(t, s.Note, s.Name)
	}
	for _, s := range r.Floors {
		floors = append(floors, s.Name)
	}
	assert.Equal(t, []string{"signal", "handover", "post", "data", "chase", "next", "write_next", "atomic", "copy",
		"hit", "llc_load", "dram_load", "lines_in_flight"}, prices)
	assert.Equal(t, []string{"pp_line_each_way_rtt", "pp_same_line_rtt", "pp_poll_wqe_cqe_rtt", "pp_wqe_doorbell_cqe_rtt",
		"pp_two_lines_each_way_rtt", "pp_wqe_doorbell_memcpy_cqe_rtt/8",
		"pp_wqe_doorbell_memcpy_cqe_rtt/64", "pp_wqe_doorbell_memcpy_cqe_rtt/256", "pp_wqe_doorbell_memcpy_cqe_rtt/4096"}, floors)
	assert.Len(t, r.Values, len(prices)+len(floors))
	require.Positive(t, r.Rounds)

	// Times that are not differences of two rows are positive on any machine, whatever else it does.
	whole := append(slices.Clone(floors), Signal, Handover, Hit, LLCLoad, DRAMLoad)
	for _, s := range append(slices.Clone(r.Prices), r.Floors...) {
		assert.Equal(t, r.Rounds, s.Rounds, s.Name)
		assert.Len(t, r.Values[s.Name], r.Rounds, s.Name)
		assert.False(t, math.IsNaN(s.Median) || math.IsInf(s.Median, 0), "%s: %v", s.Name, s.Median)
		assert.LessOrEqual(t, s.Low, s.Median, s.Name)
		assert.LessOrEqual(t, s.Median, s.High, s.Name)
		if slices.Contains(whole, s.Name) {
			assert.Positive(t, slices.Min(r.Values[s.Name]), s.Name)
		}
	}
}

func TestRunOnTheCoresOfTheOptions(t *testing.T) {
	twoCores(t)
	cpus, err := cores.Allowed()
	require.NoError(t, err)
	last, first := cpus[len(cpus)-1], cpus[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, Options{Cores: [2]int{last, first}})
	require.ErrorIs(t, err, context.Canceled)
	_, err = Run(t.Context(), Options{Cores: [2]int{first, first}})
	require.ErrorContains(t, err, "they need different ones")
	_, err = Run(t.Context(), Options{Cores: [2]int{-1, -1}, Budget: -time.Second})
	require.ErrorContains(t, err, "a budget of -1s")
}

func TestRunEndsWithItsContext(t *testing.T) {
	twoCores(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Run(ctx, Options{Cores: [2]int{-1, -1}, Budget: time.Hour})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestChooseCores(t *testing.T) {
	for _, c := range []struct {
		allowed    []int
		procs      int
		want, have [2]int
		err        string
	}{
		{[]int{3, 5, 7}, 3, [2]int{-1, -1}, [2]int{3, 5}, ""},
		{[]int{3, 5, 7}, 3, [2]int{-1, 3}, [2]int{5, 3}, ""},
		{[]int{3, 5, 7}, 3, [2]int{7, -1}, [2]int{7, 3}, ""},
		{[]int{3, 5}, 2, [2]int{5, 3}, [2]int{5, 3}, ""},
		{[]int{3, 5}, 2, [2]int{4, -1}, [2]int{}, "core 4 is not one of those that this process may run on, [3 5]"},
		{[]int{3}, 1, [2]int{-1, -1}, [2]int{}, "this process may run on 1 core only, [3]; lines between cores need 2"},
		{[]int{3, 5}, 1, [2]int{-1, -1}, [2]int{}, "GOMAXPROCS is 1; two threads that wait for each other need 2"},
	} {
		have, err := chooseFrom(c.allowed, c.procs, c.want)
		if c.err != "" {
			assert.EqualError(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.have, have)
	}
}

func TestPricesOfARound(t *testing.T) {
	r := round{
		first: map[string]float64{
			firstRow: 190, lastRow: 210, Handover: 120, "word out, line back": 170, "line ahead": 207,
			"copy of 1": 252, "copy of 64": 283.5, "block of 16": 100, "block of 64": 340, "adding together": 350,
			"adding apart": 300, Hit: 2, LLCLoad: 15, DRAMLoad: 150,
		},
		second: map[string]float64{"chain of 2": 250, "chain of 6": 350, "block of 16": 300, "block of 64": 396},
	}
	want := map[string]float64{
		Signal: 100, Handover: 60, Post: 70, Data: 7, Chase: 25, Next: 2, WriteNext: 5, Atomic: 25, Copy: 0.5,
		Hit: 2, LLCLoad: 15, DRAMLoad: 150, LinesInFlight: 12.5,
	}
	have := r.derive()
	require.Len(t, have, len(want))
	for name, v := range want {
		assert.InDelta(t, v, have[name], 1e-9, name)
	}
}

func TestDisturbedRoundsDoNotCount(t *testing.T) {
	calm, disturbed := round{}, round{disturbed: true}
	for _, c := range []struct {
		calm, disturbed int
		counts, dropped int
		is              bool
	}{
		{10, 0, 10, 0, false},
		{10, 5, 10, 5, false},
		{10, 11, 10, 11, true},
		{5, 16, 21, 0, true}, // fewer than a quarter are left
		{2, 3, 5, 0, true},   // fewer than three are left
		{0, 8, 8, 0, true},
	} {
		all := append(slices.Repeat([]round{calm}, c.calm), slices.Repeat([]round{disturbed}, c.disturbed)...)
		list, dropped, is := counting(all)
		assert.Len(t, list, c.counts, "%+v", c)
		assert.Equal(t, c.dropped, dropped, "%+v", c)
		assert.Equal(t, c.is, is, "%+v", c)
	}
}

func TestSample(t *testing.T) {
	values := []float64{5, 1, 3, 2, 4}
	assert.Equal(t, Sample{Name: "a", Median: 3, Low: 2, High: 4, Rounds: 5, Note: "b"}, sample("a", "b", values))
	assert.Equal(t, []float64{5, 1, 3, 2, 4}, values, "the values stay in the order of the rounds")
	assert.Equal(t, Sample{Median: 1.5, Low: 1.25, High: 1.75, Rounds: 2}, sample("", "", []float64{2, 1}))
}

// Loads must go through all lines of their memory before they come back to the first.
func TestLoadsVisitAllLines(t *testing.T) {
	for _, size := range []int{4096, 1 << 20} {
		l, err := newLoads(size)
		require.NoError(t, err)
		seen := make(map[uint64]bool)
		for range size / 64 {
			seen[l.run(1)] = true
		}
		assert.Len(t, seen, size/64)
		assert.Zero(t, l.at, "back at the first line")
		require.NoError(t, l.close())
	}
}

func TestWorkingSets(t *testing.T) {
	for _, c := range []struct {
		caches
		first, last, memory int
		beyond              bool
	}{
		{caches{48 << 10, 1 << 20, 32 << 20}, 16 << 10, 4 << 20, 64 << 20, true},
		{caches{32 << 10, 1 << 20, 36608 << 10}, 16 << 10, 4 << 20, 128 << 20, true},
		{caches{48 << 10, 2 << 20, 260 << 20}, 16 << 10, 8 << 20, 128 << 20, false},
		{caches{32 << 10, 256 << 10, 256 << 10}, 16 << 10, 128 << 10, 512 << 10, true},
	} {
		first, last, memory, beyond := c.sets()
		assert.Equal(t, []any{c.first, c.last, c.memory, c.beyond}, []any{first, last, memory, beyond})
	}
}

func TestSizesOfCaches(t *testing.T) {
	for text, want := range map[string]int{"48K": 48 << 10, "32M": 32 << 20, "1G": 1 << 30, "512": 512, "": 0, "K": 0, "-1K": 0, "99999999M": 0} {
		assert.Equal(t, want, bytesOf(text), text)
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "size"), []byte("48K\n"), 0o600))
	assert.Equal(t, "48K", value(folder, "size"))
	assert.Empty(t, value(folder, "level"), "a kernel that does not tell")
	c := cachesOf(-1) // no such core
	assert.Equal(t, caches{32 << 10, 1 << 20, c.last}, c)
	assert.Positive(t, c.last)
}
