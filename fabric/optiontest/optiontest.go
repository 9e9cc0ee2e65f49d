// Package optiontest helps the tests of links to compare the options that Parse takes with its comment,
// which go doc prints.
package optiontest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var option = regexp.MustCompile(`(?m)^\s+((\w+)=\S+) `)

// Defaults returns the options in the comment on Parse in the caller's options.go, as name=default,
// separated by commas, without the options in except. It requires that refused, the error of Parse
// for an unknown option, names these and one more: the one that has no default.
func Defaults(t *testing.T, refused error, except ...string) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "options.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var list []string
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Parse" {
			for _, m := range option.FindAllStringSubmatch(f.Doc.Text(), -1) {
				if !slices.Contains(except, m[2]) {
					require.ErrorContains(t, refused, m[2])
					list = append(list, m[1])
				}
			}
		}
	}
	require.Len(t, list, strings.Count(refused.Error(), ",")+1, "all that the error names: %v", refused)
	return strings.Join(list, ",")
}
