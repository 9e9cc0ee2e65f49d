package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/explore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var updateDocs = flag.Bool("update-docs", false, "write the outputs and plots of docs/CXL.md anew")

// TestOutputsInDocs runs the commands of docs/CXL.md. Their outputs are those of the page, and the plots that they write
// are those in the repository.
func TestOutputsInDocs(t *testing.T) {
	if !*updateDocs {
		explore.Only(t)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // nobody has calibrated this machine
	const page = "../../docs/CXL.md"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	blocks := 0
	got := regexp.MustCompile("(?s)```console\n(.*?)```").ReplaceAllFunc(text, func(block []byte) []byte {
		var out bytes.Buffer
		out.WriteString("```console\n")
		for line := range strings.Lines(string(block)) {
			command, ok := strings.CutPrefix(line, "$ nicless ")
			if !ok {
				continue
			}
			blocks++
			out.WriteString(line)
			out.WriteString(runForDocs(t, strings.Fields(command)))
		}
		out.WriteString("```")
		return out.Bytes()
	})
	require.Greater(t, blocks, 8)
	if *updateDocs {
		require.NoError(t, os.WriteFile(page, got, 0o644))
		return
	}
	assert.Equal(t, string(text), string(got), "go test ./cmd/nicless -run TestOutputsInDocs -update-docs writes them anew; say why they change")
}

// runForDocs runs a command of the page and returns its output. A file that it writes is compared with the one in the
// repository.
func runForDocs(t *testing.T, args []string) string {
	var out, errs bytes.Buffer
	for i, a := range args {
		if i > 0 && args[i-1] == "--output" {
			want := filepath.Join("../..", a)
			args[i] = filepath.Join(t.TempDir(), filepath.Base(a))
			defer func() {
				got, err := os.ReadFile(args[i])
				require.NoError(t, err)
				if *updateDocs {
					require.NoError(t, os.WriteFile(want, got, 0o644))
				}
				there, err := os.ReadFile(want)
				require.NoError(t, err)
				assert.Equal(t, string(there), string(got), "%s", a)
			}()
		}
	}
	require.Equal(t, 0, run(args, strings.NewReader(""), &out, &errs), "nicless %v: %s", args, errs.String())
	require.NotContains(t, errs.String(), "error")
	return out.String()
}
