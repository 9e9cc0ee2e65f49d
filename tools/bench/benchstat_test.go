//go:build linux && (amd64 || arm64)

package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchstat reads the table, and compares nicless with the floor.
func TestBenchstatReads(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command here")
	}
	table := tableOf(ratioRow("write-8", "us", "<= 1 x floor", 2), ratioRow("rate-db16", "Mops", ">= 1 x floor", 2),
		valueRow("idle-cpu", "% of a core", 0.5, 0.25))
	table.Machine.CPUs = []int{0, 1}
	var b bytes.Buffer
	require.NoError(t, table.PrintBenchstat(&b))
	require.Contains(t, b.String(), "\nBenchmarkWrite-8/of=nicless-2 1 100000 ns/op\n")
	require.Contains(t, b.String(), "\nUnit Mops better=higher\n")
	file := filepath.Join(t.TempDir(), "table")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
	out, err := exec.Command("go", "tool", "benchstat", "-format", "csv", "-col", "/of", file).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, want := range []string{",nicless,,floor,", ",sec/op,CI,sec/op,", "Write-8-2,0.00015", ",Mops,", "Rate-db16-2,150,", "Idle-cpu-2,0.375,"} {
		require.Contains(t, string(out), want)
	}
}
