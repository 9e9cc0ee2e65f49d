package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// TestAllreduce uses element counts that N does not divide, fewer elements than
// accelerators, one accelerator, and more chunks than lanes.
func TestAllreduce(t *testing.T) {
	for _, c := range []struct{ n, elements, rounds int }{
		{1, 1, 1}, {1, 1000, 2}, {2, 1, 2}, {4, 3, 3}, {7, 6, 2}, {3, 1000, 2}, {4, 4097, 2}, {2, 700_001, 2},
	} {
		t.Run(fmt.Sprintf("n=%d,elements=%d", c.n, c.elements), func(t *testing.T) {
			res, err := run(c.n, c.elements, c.rounds)
			require.NoError(t, err)
			require.Positive(t, res.Seconds)
		})
	}
}

func TestOutput(t *testing.T) {
	out, stderr, code := program.Run(t, "-n", "3", "-elements", "5000", "-rounds", "2")
	require.Zero(t, code, stderr)
	assert.Contains(t, out, "3 accelerators, each with 5000 float32 (20000 bytes); 1 chunks, 1 at once\nall sums are right, in each of 2 rounds")
	assert.Regexp(t, `(?m)^  all-reduce .* s   bus bandwidth .* GB/s = bytes / seconds x 2\(N-1\)/N \(1\.333\)$`, out)
	assert.Regexp(t, `(?m)^  plain copies .* s   bus bandwidth .* GB/s`, out)
	assert.Regexp(t, `(?m)^  ratio +\d+\.\d\d `, out)

	out, stderr, code = program.Run(t, "-n", "2", "-elements", "100", "-json")
	require.Zero(t, code, stderr)
	var r result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, 400, r.Bytes)
	assert.Positive(t, r.Ratio)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-n", "0"}, {"-n", "65"}, {"-elements", "0"}, {"-n", "64", "-elements", "100000000"}, {"-rounds", "0"}, {"-bogus"}, {"more"},
	} {
		_, stderr, code := program.Run(t, args...)
		assert.Equal(t, 2, code, "%v: %s", args, stderr)
	}
}

// TestCheck shows that check finds one wrong number on one accelerator.
func TestCheck(t *testing.T) {
	nic, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	defer nic.Close()
	r, err := newRing(nic, 3, 100, nil)
	require.NoError(t, err)
	defer r.close()
	r.fill(0)
	require.ErrorContains(t, r.check(0), "element 0 of accelerator 0 is 0; the serial sum is 93")
	require.NoError(t, r.reduce())
	require.NoError(t, r.check(0))
	r.nodes[2].floats[r.array()/4+99]++
	require.ErrorContains(t, r.check(0), "element 99 of accelerator 2 is 688; the serial sum is 687")
}
