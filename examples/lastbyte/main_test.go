package main

import (
	"testing"

	"github.com/nicless/nicless/internal/program"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestLastByte(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the program has the race that it shows")
	}
	out, err := program.Command(t).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, `^seed \d+: the last bytes were there, and \d+ bytes before them were not
  injected by rule "no order before the completion" \(order of bytes: weak\): bytes \d+\.\.4095 of RDMA_WRITE \d+ became visible `+
		`before its bytes \d+\.\.\d+: bytes of one message have no order before its completion
polls memory:       wrong with some of 100 seeds
polls a completion: right with all of them
$`, string(out))
}

func TestUsage(t *testing.T) {
	out, err := program.Command(t, "--help").Output()
	require.NoError(t, err)
	assert.Equal(t, usage, string(out))
	require.Error(t, program.Command(t, "more").Run())
}
