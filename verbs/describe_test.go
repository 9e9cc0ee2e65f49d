package verbs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/VERBS.md lists what the tables say. UPDATE_DOCS=1 writes it there.
func TestDocsListTheTables(t *testing.T) {
	const path, begin, end = "../docs/VERBS.md", "<!-- begin: verbs.Markdown -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok)
	list, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if os.Getenv("UPDATE_DOCS") != "" {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+Markdown()+end+after), 0o644))
		return
	}
	require.Equal(t, Markdown(), list, "UPDATE_DOCS=1 go test ./verbs -run Docs writes it anew")
}

// Every method has a name of its own, and attributes that are told apart.
func TestTablesAreWhole(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range allMethods() {
		require.False(t, names[m.name], m.name)
		names[m.name] = true
		require.NotNil(t, m.run, m.name)
		ids := make(map[uint16]bool)
		for _, f := range m.fields {
			require.False(t, ids[f.id], "%s %#x", m.name, f.id)
			ids[f.id] = true
			require.LessOrEqual(t, f.min, max(f.max, f.min))
		}
	}
	require.Len(t, methods, len(allMethods()))
	require.Len(t, writeCommands, len(allWriteCommands()))
	for _, w := range allWriteCommands() {
		require.LessOrEqual(t, w.request, w.known, w.name)
	}
}
