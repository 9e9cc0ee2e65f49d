package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docOf returns the package comment of the engine, or of a package below it.
func docOf(t *testing.T, dir string) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "doc.go"), nil, parser.ParseComments)
	require.NoError(t, err)
	return f.Doc.Text()
}

// layers are the packages of the device, from the lowest to the highest.
var layers = []string{"object", "report", "completion", "execution", "transport", "loop", "request"}

// The list of files in the doc.go of each layer names each file of that package once, and no other.
func TestDocNamesEveryFile(t *testing.T) {
	for _, layer := range layers {
		dir := filepath.Join("internal", layer)
		_, list, ok := strings.Cut(docOf(t, dir), "# Files")
		require.True(t, ok, "doc.go of %s has a list of files", layer)
		require.ElementsMatch(t, filesIn(t, dir), regexp.MustCompile(`[a-z0-9_]+\.go`).FindAllString(list, -1), layer)
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	present, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range present {
		if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") && name != "doc.go" {
			names = append(names, name)
		}
	}
	return names
}

// The doc.go of the engine names each package below it and each file of its own.
func TestDocNamesEveryPackage(t *testing.T) {
	_, text, ok := strings.Cut(docOf(t, "."), "# Packages")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "# One WQE")
	present, err := filepath.Glob("internal/*")
	require.NoError(t, err)
	require.ElementsMatch(t, present, regexp.MustCompile(`internal/[a-z0-9]+`).FindAllString(text, -1))
	named := slices.DeleteFunc(regexp.MustCompile(`[a-z0-9_]+\.go`).FindAllString(text, -1), func(name string) bool {
		return name == "doc.go" || name == "layering_test.go" || name == "test.go"
	})
	require.ElementsMatch(t, filesIn(t, "."), named)
}

// Each function that doc.go names before a file, as in "loop, Steps (loop/run.go)", is declared
// there.
func TestDocNamesFunctionsThatExist(t *testing.T) {
	_, text, _ := strings.Cut(docOf(t, "."), "# One WQE")
	text = strings.Join(strings.Fields(text), " ")
	found := regexp.MustCompile(`((?:\w+(?:, | and ))*\w+) \(((?:\w+/\w+\.go(?:, )?)+)\)`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		for file := range strings.SplitSeq(m[2], ", ") {
			declared := functions(t, filepath.Join("internal", file))
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
