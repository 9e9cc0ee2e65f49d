package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/nicless/nicless"

// A result is what was measured of one package.
type result struct {
	path     string
	lines    int    // lines of code and comments
	greatest string // the type with the most methods
	methods  int    // methods of that type
	uses     int    // pairs of files of which the first uses the second
	against  []use
	order    []string // files, from the lowest
}

// A use says which names of a file another one uses.
type use struct {
	from, of string
	names    []string
}

// share returns the share of uses against the direction, in percent.
func (r *result) share() float64 { return 100 * float64(len(r.against)) / float64(max(r.uses, 1)) }

// measure loads packages, seen from the folder dir, and measures each.
func measure(dir string, paths ...string) ([]result, error) {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: dir}, paths...)
	if err != nil {
		return nil, err
	}
	// In the order in which they were named, where they were named by their whole paths.
	slices.SortStableFunc(loaded, func(a, b *packages.Package) int {
		return slices.Index(paths, a.PkgPath) - slices.Index(paths, b.PkgPath)
	})
	var all []result
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		all = append(all, measureOne(p))
	}
	return all, nil
}

func measureOne(p *packages.Package) result {
	r := result{path: p.PkgPath}
	files := make([]string, len(p.Syntax))
	in := make(map[types.Object]int) // the file in which something is declared
	methods := make(map[string]int)
	for i, f := range p.Syntax {
		files[i] = filepath.Base(p.Fset.Position(f.Pos()).Filename)
		r.lines += p.Fset.File(f.Pos()).LineCount()
		for _, d := range f.Decls {
			for _, name := range declared(d) {
				in[p.TypesInfo.Defs[name]] = i
			}
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[receiver(p.TypesInfo.Defs[fn.Name])]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if methods[name] > r.methods {
			r.greatest, r.methods = name, methods[name]
		}
	}
	uses := make([][]map[string]bool, len(files))
	for i, f := range p.Syntax {
		uses[i] = make([]map[string]bool, len(files))
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				o := p.TypesInfo.Uses[id]
				if fn, ok := o.(*types.Func); ok {
					o = fn.Origin()
				}
				if j, ok := in[o]; ok && j != i {
					if uses[i][j] == nil {
						uses[i][j] = make(map[string]bool)
					}
					uses[i][j][o.Name()] = true
				}
			}
			return true
		})
	}
	position := make([]int, len(files))
	for at, i := range ordered(len(files), func(i, j int) bool { return uses[i][j] != nil }) {
		position[i] = at
		r.order = append(r.order, files[i])
	}
	for i := range uses {
		for j, names := range uses[i] {
			if names == nil {
				continue
			}
			r.uses++
			if position[j] > position[i] {
				r.against = append(r.against, use{files[i], files[j], slices.Sorted(maps.Keys(names))})
			}
		}
	}
	return r
}

// declared returns the names that a declaration at the top of a file declares.
func declared(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		names = append(names, d.Name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name)
			case *ast.ValueSpec:
				names = append(names, s.Names...)
			}
		}
	}
	return names
}

// receiver returns the name of the type of a method.
func receiver(method types.Object) string {
	t := method.Type().(*types.Signature).Recv().Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.(*types.Named).Obj().Name()
}
