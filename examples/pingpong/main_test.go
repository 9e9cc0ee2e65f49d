package main

import (
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestPingpong(t *testing.T) {
	for _, size := range []string{"8", "9", "1000"} {
		out, stderr, code := program.Run(t, "-n", "300", "-size", size)
		require.Zero(t, code, stderr)
		assert.Contains(t, out, "300 round trips of 2 messages of "+size+" bytes, every message checked")
		assert.Regexp(t, `(?m)^     50 %  +\d`, out)
		assert.Regexp(t, `(?m)^     most  +\d`, out)
	}
}

func TestUsage(t *testing.T) {
	out, stderr, code := program.Run(t, "-h")
	assert.Zero(t, code)
	assert.Equal(t, usage, out)
	assert.Empty(t, stderr)
	for _, args := range [][]string{{"-size", "7"}, {"-size", "1048577"}, {"-n", "0"}, {"-n", "x"}, {"-bogus"}, {"more"}} {
		_, stderr, code := program.Run(t, args...)
		assert.Equal(t, 2, code, "%v: %s", args, stderr)
	}
}

// TestCheck shows that check finds a message that differs from the sent one.
func TestCheck(t *testing.T) {
	nic, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	defer nic.Close()
	pd, err := nic.AllocPD()
	require.NoError(t, err)
	a, err := newPlayer(nic, pd, 64)
	require.NoError(t, err)
	b, err := newPlayer(nic, pd, 64)
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(a.qp, b.qp, nicless.Connection{}))

	a.fill(1)
	require.NoError(t, a.serve(b))
	require.NoError(t, b.check(a))
	a.fill(2)
	require.ErrorContains(t, b.check(a), "received 0100000000000000 and so on, sent 0200000000000000")
	require.NoError(t, a.serve(b))
	require.NoError(t, b.check(a))
	b.received()[63] ^= 1
	require.Error(t, b.check(a))
}
