package tree

import (
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var updateLimits = flag.Bool("update-limits", false, "write the values into the table of limits in docs/FABRIC.md")

// The table of limits in docs/FABRIC.md has the values of the constants that it names.
func TestLimits(t *testing.T) {
	atRoot(t)
	const page = "docs/FABRIC.md"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	packages := newPackages()
	var wrong []string
	rows := 0
	row := regexp.MustCompile("(?m)^(\\| [^|\n]+ \\| )([^|\n]+)( \\| `([a-z/]+)\\.([A-Za-z]+)` \\| )")
	got := row.ReplaceAllStringFunc(string(text), func(s string) string {
		rows++
		m := row.FindStringSubmatch(s)
		folder := m[4]
		if folder == "nicless" {
			folder = "." // the package of the root
		}
		p, err := packages.ImportFrom(folder, ".", 0)
		require.NoError(t, err, "%s: package %s of %s", page, m[4], m[5])
		c, ok := p.Scope().Lookup(m[5]).(*types.Const)
		require.True(t, ok, "%s names a constant %s.%s, which does not exist", page, m[4], m[5])
		value := limitText(t, c)
		if value != m[2] {
			wrong = append(wrong, m[4]+"."+m[5]+" is "+value+", and not "+m[2])
		}
		return m[1] + value + m[3]
	})
	require.Greater(t, rows, 20, "rows of the table")
	if *updateLimits {
		require.NoError(t, os.WriteFile(page, []byte(got), 0o666))
		return
	}
	require.Empty(t, wrong, "go test ./internal/tree -run TestLimits -update-limits writes %s", page)
}

// limitText writes the value of a constant: a number with commas, or a time.
func limitText(t *testing.T, c *types.Const) string {
	t.Helper()
	n, exact := constant.Int64Val(constant.ToInt(c.Val()))
	require.True(t, exact, "%s is %s, and no number of 64 bits", c.Name(), c.Val())
	if c.Type().String() == "time.Duration" {
		return time.Duration(n).String()
	}
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// Packages imports packages of this module from their sources, for their constants alone: bodies of functions
// and all that needs packages outside of the module are passed over.
type packages struct {
	files *token.FileSet
	known map[string]*types.Package
}

func newPackages() *packages {
	return &packages{token.NewFileSet(), map[string]*types.Package{"time": timePackage()}}
}

// timePackage returns what constants need of package time: type-checking all of it takes a second.
func timePackage() *types.Package {
	p := types.NewPackage("time", "time")
	name := types.NewTypeName(token.NoPos, p, "Duration", nil)
	duration := types.NewNamed(name, types.Typ[types.Int64], nil)
	p.Scope().Insert(name)
	for unit, value := range map[string]time.Duration{
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
		"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	} {
		p.Scope().Insert(types.NewConst(token.NoPos, p, unit, duration, constant.MakeInt64(int64(value))))
	}
	p.MarkComplete()
	return p
}

func (p *packages) Import(name string) (*types.Package, error) { return p.ImportFrom(name, "", 0) }

// ImportFrom imports a package by its folder, or by its import path.
func (p *packages) ImportFrom(name, _ string, _ types.ImportMode) (*types.Package, error) {
	dir, own := strings.CutPrefix(name, module+"/")
	if !own {
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			dir, own = name, true
		}
	}
	switch {
	case p.known[dir] != nil: // the package time, too
		return p.known[dir], nil
	case !own: // types of others are in no constant of ours
		other := types.NewPackage(name, path.Base(name))
		other.MarkComplete()
		return other, nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var list []*ast.File
	for _, name := range names {
		match, err := build.Default.MatchFile(dir, filepath.Base(name))
		if err != nil || !match || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(p.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no Go files in %s", dir)
	}
	c := types.Config{IgnoreFuncBodies: true, Importer: p, FakeImportC: true, Error: func(error) {}}
	pkg, _ := c.Check(module+"/"+dir, p.files, list, nil) // its errors are about what was passed over
	p.known[dir] = pkg
	return pkg, nil
}
