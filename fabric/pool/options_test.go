package pool

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The comment on Parse, which go doc prints, has every option with its default.
func TestDefaultsInTheComment(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "options.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var options, names []string
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Parse" {
			for _, m := range regexp.MustCompile(`(?m)^\s+((\w+)=\S+) `).FindAllStringSubmatch(f.Doc.Text(), -1) {
				options, names = append(options, m[1]), append(names, m[2])
			}
		}
	}
	_, err = Parse("p,node=0,nothing=1")
	for _, name := range names {
		require.ErrorContains(t, err, name)
	}
	require.Len(t, names, strings.Count(err.Error(), ",")+1, "all that the error names, and not node: %v", err)
	got, err := Parse("p,node=0," + strings.Join(options, ","))
	require.NoError(t, err)
	want, err := Parse("p,node=0")
	require.NoError(t, err)
	gotPlan, err := plan(&got, defaultSize)
	require.NoError(t, err)
	wantPlan, err := plan(&want, defaultSize)
	require.NoError(t, err)
	require.Equal(t, wantPlan, gotPlan)
	got, want = got.withDefaults(), want.withDefaults()
	require.Equal(t, []any{want.Offset, want.Size, want.Dead, want.Wait}, []any{got.Offset, got.Size, got.Dead, got.Wait})
}
