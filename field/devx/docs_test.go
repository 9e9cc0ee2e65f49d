package devx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field/devx"
)

// docs/reference/firmware-commands.md has the tables that Markdown returns. With UPDATE_DOCS=1 the test
// writes them there.
func TestDocsListTheTables(t *testing.T) {
	const path = "../../docs/reference/firmware-commands.md"
	const begin, end = "<!-- begin: devx.Markdown -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok)
	list, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if os.Getenv("UPDATE_DOCS") != "" {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+devx.Markdown()+end+after), 0o644))
		return
	}
	require.Equal(t, devx.Markdown(), list, "UPDATE_DOCS=1 go test ./field/devx -run Docs updates it")
}

// The package documentation lists every file of the package.
func TestDocListsTheFiles(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
			require.Contains(t, string(doc), "//   - "+name+": ")
		}
	}
}
