package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out, errs strings.Builder
	require.Zero(t, run([]string{"man", dir}, strings.NewReader(""), &out, &errs), errs.String())
	require.Empty(t, out.String())
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, f := range list {
		names = append(names, f.Name())
	}
	require.Equal(t, []string{"nicless-bench-all.1", "nicless-bench.1", "nicless-completion.1", "nicless-decode.1", "nicless-demo.1",
		"nicless-engine.1", "nicless-explain.1", "nicless-fatbin.1", "nicless-fault.1", "nicless-key.1", "nicless-links.1", "nicless-model-calibrate.1", "nicless-model-diff.1", "nicless-model-presets.1", "nicless-model-rack.1", "nicless-model-show.1", "nicless-model-validate.1", "nicless-model.1", "nicless-net-up.1", "nicless-net.1", "nicless-record.1", "nicless-replay.1", "nicless-run.1", "nicless-shell.1", "nicless-status.1", "nicless-top.1", "nicless-torture.1", "nicless-trace-show.1", "nicless-trace.1", "nicless-version.1", "nicless-web.1", "nicless.1"}, names)

	request := regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|nf|fi)\s`)
	words := regexp.MustCompile(`[\p{L}\d]+`)
	for _, c := range manualPages(newRoot()) {
		b, err := os.ReadFile(filepath.Join(dir, pageName(c)+".1"))
		require.NoError(t, err)
		page := string(b)
		assert.Regexp(t, `^\.TH NICLESS[A-Z-]* 1 "" "nicless \S.*" "nicless manual"\n\.SH NAME\nnicless`, page)
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				require.Regexp(t, request, line)
			}
		}
		assert.Equal(t, strings.Count(page, "\n.nf\n"), strings.Count(page, "\n.fi\n"))
		// Every word of the help text is on the page, in the same order.
		_, rest, _ := strings.Cut(page, "\n.SH DESCRIPTION\n")
		has := words.FindAllString(strings.ReplaceAll(strings.ToLower(rest), `\e`, ``), -1)
		for _, word := range words.FindAllString(strings.ToLower(c.Long), -1) {
			at := slices.Index(has, word)
			if !assert.GreaterOrEqual(t, at, 0, "%s: %q", c.CommandPath(), word) {
				break
			}
			has = has[at+1:]
		}
	}
}

func TestRoff(t *testing.T) {
	for in, want := range map[string]string{
		"":         "",
		"--flag":   `\-\-flag`,
		`a \`:      `a \e`,
		".dot 'a'": `\&.dot 'a'`,
		"'quote'":  `\&'quote'`,
		"a …":      `a \[u2026]`,
	} {
		assert.Equal(t, want, roff(in))
	}
}
