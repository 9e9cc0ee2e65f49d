package known_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field/known"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/EXPLANATIONS.md")

const explanationsPage = "../../docs/EXPLANATIONS.md"

func TestEveryCodeHasItsMeaning(t *testing.T) {
	seen := make(map[string]bool)
	for _, e := range known.Explanations() {
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, e.Name)
		assert.LessOrEqual(t, len(e.Name), 24, "%s does not fit an event", e.Name)
		assert.False(t, seen[e.Name], "%s is there twice", e.Name)
		seen[e.Name] = true
		assert.NotEmpty(t, e.Group, e.Name)
		for what, text := range map[string]string{"seen": e.Seen, "why": e.Why, "cause": e.Cause, "fix": e.Fix} {
			assert.Regexp(t, `^[^|\n]+[^|\n.]$`, text, "%s: %s: a phrase for a cell of a table", e.Name, what)
		}
		same, ok := known.Explain(e.Name)
		assert.True(t, ok)
		assert.Equal(t, e, same)
	}
	_, ok := known.Explain("key")
	assert.False(t, ok)
}

// tables returns the part of the page that begins with the first heading of a group.
func tables() string {
	var b strings.Builder
	group := ""
	for _, e := range known.Explanations() {
		if e.Group != group {
			group = e.Group
			fmt.Fprintf(&b, "\n## %s\n\n| code | what was seen | what hardware does, and why | likely cause | how to fix it |\n| --- | --- | --- | --- | --- |\n", group)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", e.Name, e.Seen, e.Why, e.Cause, e.Fix)
	}
	return b.String()
}

// The page contains the table, and its introduction names only codes that exist.
func TestPageOfExplanations(t *testing.T) {
	b, err := os.ReadFile(explanationsPage)
	require.NoError(t, err)
	first := known.Explanations()[0].Group
	head, got, ok := strings.Cut(string(b), "\n## "+first)
	require.True(t, ok, "no heading %q", first)
	if *update {
		require.NoError(t, os.WriteFile(explanationsPage, []byte(head+tables()), 0o644))
		return
	}
	require.Equal(t, tables(), "\n## "+first+got)
	for _, name := range regexp.MustCompile("`([a-z]+-[a-z-]+)`").FindAllStringSubmatch(head, -1) {
		require.Contains(t, tables(), "| "+name[1]+" |", "the page names a code that does not exist")
	}
}
