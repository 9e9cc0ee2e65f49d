package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what the incidents print into testdata")

func TestMain(m *testing.M) { program.Main(m, main) }

// Each incident happens under its rules, with the same bytes each time, and does not happen
// without them.
func TestIncidents(t *testing.T) {
	for _, i := range incidents {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			golden := "testdata/" + i.name + ".txt"
			for range 2 {
				out, stderr, code := program.Run(t, i.name)
				require.Zero(t, code, "%s%s", out, stderr)
				if *update {
					require.NoError(t, os.WriteFile(golden, []byte(out), 0o644))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), out)
			}
			out, stderr, code := program.Run(t, "-healthy", i.name)
			require.Zero(t, code, "%s%s", out, stderr)
			assert.Contains(t, out, "\nwrong: nothing\n")
		})
	}
}

// Each incident has a section of docs/FAULTS.md with its link, its rules, its command and what it
// prints in the end. No other rules exist.
func TestIncidentsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/FAULTS.md")
	require.NoError(t, err)
	files, err := rules.ReadDir("rules")
	require.NoError(t, err)
	require.Len(t, files, len(incidents))
	for _, i := range incidents {
		_, section, ok := strings.Cut(string(doc), "### "+i.name+"\n")
		require.True(t, ok, i.name)
		section, _, _ = strings.Cut(section, "\n### ")
		text, err := rules.ReadFile("rules/" + i.name + ".yaml")
		require.NoError(t, err)
		output, err := os.ReadFile("testdata/" + i.name + ".txt")
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
		assert.Contains(t, section, "<"+i.link+">")
		_, shown, _ := strings.Cut(string(text), "\n") // the first line names the schema, for editors
		assert.Contains(t, section, shown)
		assert.Contains(t, section, "$ go run ./examples/incidents "+i.name+"\n")
		assert.Contains(t, section, lines[len(lines)-1])
	}
}

func TestUsage(t *testing.T) {
	out, _, code := program.Run(t, "-h")
	assert.Zero(t, code)
	assert.Equal(t, usage, out)
	out, _, code = program.Run(t)
	assert.Zero(t, code)
	assert.Contains(t, out, "nccl-2383 ")
	for _, args := range [][]string{{"-more"}, {"nccl-1"}, {"nccl-2383", "mlx-3152"}} {
		_, stderr, code := program.Run(t, args...)
		assert.Equal(t, 2, code)
		assert.Contains(t, stderr, "incidents: hint: incidents lists them\n")
	}
}
