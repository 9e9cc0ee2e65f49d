package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	nameInOrdering = regexp.MustCompile("`((?:engine|object|report|completion|execution|transport|loop|request|hostpath|nicless|ticketlock|verbs|shm|packetring|roce|ucx|pool|netdev)\\.[A-Za-z.]+)`")
	sideInComment  = regexp.MustCompile(`(?:Observed|Published) by\s+(?://\s+)?([A-Za-z]+(?:\.[A-Za-z]+)+)`)
)

// The functions, types and fields that docs/ORDERING.md names are declared. So are the
// functions that a comment at a Publish or an Observe names as the other side.
func TestOrderingNamesWhatExists(t *testing.T) {
	atRoot(t)
	declared, comments := declarations(t)
	page, err := os.ReadFile("docs/ORDERING.md")
	require.NoError(t, err)
	names := nameInOrdering.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, names)
	for _, m := range names {
		assert.True(t, declared[m[1]], "docs/ORDERING.md names %s, which is not declared", m[1])
	}
	sides := 0
	for pkg, text := range comments {
		for _, m := range sideInComment.FindAllStringSubmatch(text, -1) {
			assert.True(t, declared[m[1]] || declared[pkg+"."+m[1]], "a comment of package %s names %s, which is not declared", pkg, m[1])
			sides++
		}
	}
	require.NotZero(t, sides)
}

// declarations returns the functions, types and fields of all packages, as "package.name"
// and "package.Type.name", and the source text of each package.
func declarations(t *testing.T) (declared map[string]bool, text map[string]string) {
	t.Helper()
	declared, text = map[string]bool{}, map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
		if err != nil {
			return err
		}
		pkg := f.Name.Name
		text[pkg] += string(src)
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				declared[pkg+"."+receiver(decl)+decl.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range decl.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						addType(declared, pkg+"."+s.Name.Name, s.Type)
					}
				}
			}
		}
		return nil
	}))
	return declared, text
}

// receiver returns "Type." for a method of Type.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if p, ok := of.(*ast.IndexExpr); ok { // of a generic type
		of = p.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

func addType(declared map[string]bool, name string, of ast.Expr) {
	declared[name] = true
	s, ok := of.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range s.Fields.List {
		for _, n := range field.Names {
			declared[name+"."+n.Name] = true
		}
	}
}
