//go:build linux && (amd64 || arm64)

package ucx

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The comment on Parse, which go doc prints, has every option with its default. Those of tls and
// devices are UCX's own.
func TestDefaultsInTheComment(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "options.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var options, names []string
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Parse" {
			for _, m := range regexp.MustCompile(`(?m)^\s+((\w+)=\S+) `).FindAllStringSubmatch(f.Doc.Text(), -1) {
				if m[2] != "listen" {
					options, names = append(options, m[1]), append(names, m[2])
				}
			}
		}
	}
	_, err = Parse("h:1,nothing=1")
	for _, name := range names {
		require.ErrorContains(t, err, name)
	}
	require.Len(t, names, strings.Count(err.Error(), ",")+1, "all that the error names, and not listen: %v", err)
	got, err := Parse("h:1," + strings.Join(options, ","))
	require.NoError(t, err)
	require.Equal(t, []string{"UCX_TLS=all", "UCX_NET_DEVICES=all"}, got.Env)
	require.Equal(t, "libucp.so.0", got.Library)
	got.Env, got.Library = nil, ""
	want, err := Parse("h:1")
	require.NoError(t, err)
	require.Equal(t, want.withDefaults(), got.withDefaults())
}
