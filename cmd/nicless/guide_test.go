package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/guide/command.md lists commands that exist, with flags that they have. It leaves out no command that
// usage lists, except version; completion is in its text.
func TestGuideListsTheCommands(t *testing.T) {
	b, err := os.ReadFile("../../docs/guide/command.md")
	require.NoError(t, err)
	_, list, ok := strings.Cut(string(b), "\n```\n")
	require.True(t, ok)
	list, text, ok := strings.Cut(list, "\n```\n")
	require.True(t, ok)
	flags := regexp.MustCompile(`(^| )(--[a-z-]+)`)
	listed := map[string]bool{}
	for line := range strings.Lines(list) {
		command, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "nicless "), "  ")
		require.True(t, ok && strings.HasPrefix(line, "nicless "), line)
		mine, _, _ := strings.Cut(command, " -- ") // what follows is of the program
		words := strings.Fields(mine)
		listed[words[0]] = true
		name := []string{words[0]}
		if len(words) > 1 && (words[0] == "bench" || words[0] == "key" || words[0] == "net" || words[0] == "trace") {
			name = append(name, words[1])
		}
		var out, errs bytes.Buffer
		require.Equal(t, 0, run(append(name, "--help"), strings.NewReader(""), &out, &errs), "%s%s", line, errs.String())
		for _, m := range flags.FindAllStringSubmatch(mine, -1) {
			assert.Regexp(t, regexp.QuoteMeta(m[2])+`\b`, out.String(), "nicless %s", mine)
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range regexp.MustCompile(`(?m)^  nicless ([a-z]+)`).FindAllStringSubmatch(rootUsage, -1) {
		assert.True(t, listed[m[1]] || m[1] == "version" || strings.Contains(text, "`nicless "+m[1]+" "), "the page has no %s", m[1])
	}
}

// The page that the hint of nicless explain names has the texts for which the hint is given.
func TestProblemsAreOnTheirPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/verbs-problems.md")
	require.NoError(t, err)
	for _, p := range problems {
		require.Contains(t, string(page), p.text)
		require.Contains(t, explainHint("error: "+p.text+"\n"), p.means)
	}
}
