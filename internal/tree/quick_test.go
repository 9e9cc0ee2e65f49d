package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Quick tests import none of these packages, or packages below them.
var notQuick = []string{"os/exec", "net", module + "/internal/await", module + "/internal/freeport", module + "/internal/lab",
	module + "/internal/proctest"}

// Quick tests use none of these parts of package time. Durations and given points in time are no clock.
var clockFunctions = []string{"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Now", "Since", "Until"}

// The packages in .ci/quick, which make check runs, have tests that need no clock, no other program and
// no network.
func TestQuickPackages(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile(".ci/quick")
	require.NoError(t, err)
	packages := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(line, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "%s in .ci/quick has no tests", line)
		packages++
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, use := range slowUses(f, module+"/"+filepath.ToSlash(filepath.Dir(file))) {
				t.Errorf("%s uses %s, so its package is not quick: mend the test, or take the package out of .ci/quick", file, use)
			}
		}
	}
	require.Greater(t, packages, 20)
}

func TestSlowUses(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", `package x
import ("net/netip"; "net/http"; "time"; "os/exec"; "`+module+`/internal/await")
var _ = time.Second
var _ = []any{time.Sleep, x.Sleep}`, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"net/http", "os/exec", module + "/internal/await", "time.Sleep"}, slowUses(f, module+"/x"))
}

// slowUses returns the forbidden parts that a file of a package uses.
func slowUses(f *ast.File, own string) (list []string) {
	for _, spec := range f.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		for _, no := range notQuick {
			if name != own && name != "net/netip" && (name == no || strings.HasPrefix(name, no+"/")) {
				list = append(list, name)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockFunctions, s.Sel.Name) {
			list = append(list, "time."+s.Sel.Name)
		}
		return true
	})
	return list
}
