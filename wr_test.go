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

// go doc does not show the fields of a type that is an alias. The comments therefore list all
// fields with their types, and no others.
func TestFieldsAreSpelledOut(t *testing.T) {
	types := map[string]reflect.Type{}
	for _, v := range []any{SendWR{}, RecvWR{}, SGE{}, Address{}, Mask{}, Bind{}, List{}, ListEntry{}, Completion{}} {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "wr.go", nil, parser.ParseComments)
	require.NoError(t, err)
	field := regexp.MustCompile(`(?m)^\t([A-Z]\w*)(?: +(\S+).*)?$`)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		name := g.Specs[0].(*ast.TypeSpec).Name.Name
		typ := types[name]
		if typ == nil {
			continue // not a struct
		}
		delete(types, name)
		said := map[string]bool{}
		for _, m := range field.FindAllStringSubmatch(g.Doc.Text(), -1) {
			real, ok := typ.FieldByName(m[1])
			require.True(t, ok, "%s has no %s", name, m[1])
			said[m[1]] = true
			if m[2] != "" {
				typ := strings.NewReplacer("hostpath.", "", "[]uint8", "[]byte").Replace(real.Type.String())
				require.Equal(t, typ, m[2], "%s.%s", name, m[1])
			}
		}
		for i := range typ.NumField() {
			// WC is documented in package cqe; reason is private.
			if f := typ.Field(i).Name; f != "WC" && f != "reason" {
				require.True(t, said[f], "%s.%s is not documented", name, f)
			}
		}
	}
	require.Empty(t, types)
}
