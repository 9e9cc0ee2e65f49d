package verbs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/reference/verbs-calls.md has the tables that Markdown returns. With UPDATE_DOCS=1 the test writes them
// there.
func TestDocsListTheTables(t *testing.T) {
	const path, begin, end = "../docs/reference/verbs-calls.md", "<!-- begin: verbs.Markdown -->\n", "<!-- end -->\n"
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
	require.Equal(t, Markdown(), list, "UPDATE_DOCS=1 go test ./verbs -run Docs updates it")
}

// All methods have different names, and the attributes of a method have different numbers.
func TestTables(t *testing.T) {
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

// The package documentation lists every file of the package, and names only functions that
// exist.
func TestDocIsTrue(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	doc := string(text)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var sources strings.Builder
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" || name == "shim_embedded.go" {
			continue
		}
		require.Regexp(t, `[\t ]`+regexp.QuoteMeta(name)+`[:, \n]`, doc, "its list of files")
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		sources.Write(text)
	}
	for _, name := range regexp.MustCompile(`\b\w+\.go\b`).FindAllString(doc, -1) {
		require.FileExists(t, name)
	}
	methods := regexp.MustCompile(`\b(process|call|uctx|memory)\.([a-z]\w+)`).FindAllStringSubmatch(strings.ReplaceAll(doc, ".go", ""), -1)
	require.Greater(t, len(methods), 10)
	for _, m := range methods {
		require.Contains(t, sources.String(), "*"+m[1]+") "+m[2]+"(", "%s.%s", m[1], m[2])
	}
}
