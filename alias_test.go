package nicless

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The comment of a type that is an alias of a hostpath type lists the fields, so that
// "go doc . SendWR" shows them. Each line names an existing field with its type, and no
// field is missing.
func TestCommentsListTheFields(t *testing.T) {
	types := []reflect.Type{
		reflect.TypeFor[SendWR](), reflect.TypeFor[RecvWR](), reflect.TypeFor[SGE](), reflect.TypeFor[Address](),
		reflect.TypeFor[Mask](), reflect.TypeFor[Bind](), reflect.TypeFor[List](), reflect.TypeFor[ListEntry](),
		reflect.TypeFor[Completion](),
	}
	comments := map[string]string{}
	for _, file := range []string{"wr.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				comments[g.Specs[0].(*ast.TypeSpec).Name.Name] = g.Doc.Text()
			}
		}
	}
	line := regexp.MustCompile(`(?m)^\t(\w+) *([^\s/]*)`)
	for _, typ := range types {
		t.Run(typ.Name(), func(t *testing.T) {
			listed := map[string]bool{}
			for _, m := range line.FindAllStringSubmatch(comments[typ.Name()], -1) {
				if _, ok := reflect.PointerTo(typ).MethodByName(m[1]); ok {
					continue
				}
				f, ok := typ.FieldByName(m[1])
				require.True(t, ok, "no field %s", m[1])
				if m[2] != "" {
					require.Equal(t, strings.ReplaceAll(m[2], "uint8", "byte"), strings.NewReplacer("hostpath.", "", "uint8", "byte").Replace(f.Type.String()), "type of %s", m[1])
				}
				listed[m[1]] = true
			}
			for i := range typ.NumField() {
				if f := typ.Field(i); f.IsExported() && f.Name != "WC" {
					require.True(t, listed[f.Name], "field %s", f.Name)
				}
			}
		})
	}
}
