package codes

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/EXPLANATIONS.md")

const explanationsPage = "../../../docs/EXPLANATIONS.md"

func TestEveryCodeHasItsMeaning(t *testing.T) {
	seen := make(map[string]bool)
	for c, m := range meanings {
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, m.name, "code %d", c)
		assert.Less(t, len(m.name), 24, "%s does not fit an event as a text of C", m.name)
		assert.False(t, seen[m.name], "%s is there twice", m.name)
		seen[m.name] = true
		for what, text := range map[string]string{"seen": m.seen, "why": m.why, "cause": m.cause, "fix": m.fix} {
			assert.Regexp(t, `^[^|\n]+[^|\n.]$`, text, "%s: %s: a phrase for a cell of a table", m.name, what)
		}
		assert.Equal(t, m.name, Code(c).String())
	}
	assert.NotEmpty(t, meanings[0].group)
	assert.Equal(t, fmt.Sprintf("code %d", Count), Count.String())
}

// tables returns the part of the page that begins with the first heading of a group.
func tables() string {
	var b strings.Builder
	for _, m := range meanings {
		if m.group != "" {
			fmt.Fprintf(&b, "\n## %s\n\n| code | what was seen | what hardware does, and why | likely cause | how to fix it |\n| --- | --- | --- | --- | --- |\n", m.group)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.name, m.seen, m.why, m.cause, m.fix)
	}
	return b.String()
}

// The page contains the table, and its introduction names only codes that exist.
func TestPageOfExplanations(t *testing.T) {
	b, err := os.ReadFile(explanationsPage)
	require.NoError(t, err)
	head, got, ok := strings.Cut(string(b), "\n## "+meanings[0].group)
	require.True(t, ok, "no heading %q", meanings[0].group)
	if *update {
		require.NoError(t, os.WriteFile(explanationsPage, []byte(head+tables()), 0o644))
		return
	}
	require.Equal(t, tables(), "\n## "+meanings[0].group+got)
	for _, name := range regexp.MustCompile("`([a-z]+-[a-z-]+)`").FindAllStringSubmatch(head, -1) {
		require.Contains(t, tables(), "| "+name[1]+" |", "the page names a code that does not exist")
	}
}
