package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packageDoc returns the text of doc.go before and after its list of files.
func packageDoc(t *testing.T) (text, files string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	text, files, ok := strings.Cut(f.Doc.Text(), "# Files")
	require.True(t, ok, "doc.go has a list of files")
	return text, files
}

// The list of files in doc.go names each file of the package and each leaf below it once,
// and nothing else.
func TestDocNamesEveryFile(t *testing.T) {
	_, text := packageDoc(t)
	named := regexp.MustCompile(`internal/[a-z0-9]+|[a-z0-9_]+\.go`).FindAllString(text, -1)
	present, err := filepath.Glob("*.go")
	require.NoError(t, err)
	leaves, err := filepath.Glob("internal/*")
	require.NoError(t, err)
	want := leaves
	for _, name := range present {
		if !strings.HasSuffix(name, "_test.go") && name != "doc.go" {
			want = append(want, name)
		}
	}
	require.ElementsMatch(t, want, named)
}

// Each function that doc.go names before a file, as in "loop, steps (run.go)", is declared
// there.
func TestDocNamesFunctionsThatExist(t *testing.T) {
	text, _ := packageDoc(t)
	text = strings.Join(strings.Fields(text), " ")
	found := regexp.MustCompile(`((?:\w+(?:, | and ))*\w+) \(((?:\w+\.go(?:, )?)+)\)`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		for file := range strings.SplitSeq(m[2], ", ") {
			declared := functions(t, file)
			names := strings.Split(strings.ReplaceAll(m[1], " and ", ", "), ", ")
			require.Contains(t, declared, names[len(names)-1], "function of %s in doc.go", file)
			for _, name := range names[:len(names)-1] {
				require.Contains(t, declared, name, "function of %s in doc.go", file)
			}
		}
	}
}

func functions(t *testing.T, file string) (names []string) {
	t.Helper()
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	f, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
	require.NoError(t, err)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}
