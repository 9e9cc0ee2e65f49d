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

var updateDocs = flag.Bool("update-docs", false, "write anew the outputs and plots of pages about the cost model")

// modelPages are the pages about the cost model, without ".md", and how many commands each has.
var modelPages = map[string]int{"CXL": 10, "reference/cxl-questions": 5, "reference/cxl-validation": 1}

// TestOutputsInDocs runs the commands of these pages. Their outputs are those of the page, and the plots that
// they write are those in the repository.
func TestOutputsInDocs(t *testing.T) {
	if !*updateDocs {
		explore.Only(t)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // without a calibration of this machine
	for page, commands := range modelPages {
		outputsOf(t, "../../docs/"+page+".md", commands)
	}
}

func outputsOf(t *testing.T, page string, commands int) {
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
	require.Equal(t, commands, blocks, page)
	if *updateDocs {
		require.NoError(t, os.WriteFile(page, got, 0o644))
		return
	}
	assert.Equal(t, string(text), string(got), "go test ./cmd/nicless -run TestOutputsInDocs -update-docs writes them anew; say why they change")
}

// docs/CXL.md has, in short, the results of tables on the other pages: totals in ns, and how many rows of the
// validation are reproduced.
func TestModelSummary(t *testing.T) {
	read := func(page string) string {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		require.NoError(t, err)
		return string(text)
	}
	text, questions, validation := read("CXL"), read("reference/cxl-questions"), read("reference/cxl-validation")
	rows := regexp.MustCompile(`(?m)^\d+ rows: .*$`).FindString(validation)
	require.NotEmpty(t, rows)
	require.Contains(t, text, rows)
	_, short, ok := strings.Cut(text, "## BlueFlame, batches, pools, prefetched receives")
	require.True(t, ok)
	short, _, _ = strings.Cut(short, "\n## ")
	totals := strings.Join(regexp.MustCompile(`(?m)^total .*$`).FindAllString(text+questions, -1), "\n")
	said := 0
	for _, m := range regexp.MustCompile(`(\d+)\s(?:(?:becomes|and)\s(\d+)\s)?ns\b`).FindAllStringSubmatch(short, -1) {
		for _, n := range m[1:] {
			if n != "" {
				said++
				require.Regexp(t, ` `+n+`\b`, totals, "no total of a table is %s ns", n)
			}
		}
	}
	require.Greater(t, said, 5)
}

// runForDocs runs a command of the page and returns its output. A file that it writes is compared with the
// one in the repository.
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
