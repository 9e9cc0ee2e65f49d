package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"
	"unicode"
)

// names finds words of the table in the names that a file declares: functions, methods, types, fields,
// variables and constants of the package. Names inside functions, and of parameters, are free.
func names(fset *token.FileSet, f *ast.File, file string) (found []possible) {
	check := func(ids ...*ast.Ident) {
		for _, id := range ids {
			for _, part := range parts(id.Name) {
				if w, ok := fieldWord[part]; ok {
					at := finding{file, fset.Position(id.Pos()).Line,
						fmt.Sprintf("name %s contains %q: use the field's word, as %s", id.Name, part, w.instead)}
					found = append(found, possible{at, id.Name, w.word})
					break
				}
			}
		}
	}
	fields := func(n ast.Node) { // of all structures and interfaces
		ast.Inspect(n, func(n ast.Node) bool {
			var list *ast.FieldList
			switch n := n.(type) {
			case *ast.StructType:
				list = n.Fields
			case *ast.InterfaceType:
				list = n.Methods
			case *ast.FuncLit:
				return false
			default:
				return true
			}
			for _, field := range list.List {
				check(field.Names...)
			}
			return true
		})
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			check(decl.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					check(spec.Name)
				case *ast.ValueSpec:
					check(spec.Names...)
				}
				fields(spec)
			}
		}
	}
	return found
}

// parts divides a name in CamelCase or snake_case, and returns its parts in lower case: readQPState is read,
// qp, state.
func parts(name string) (all []string) {
	runes := []rune(name)
	begin := 0
	end := func(i int) {
		if i > begin {
			all = append(all, strings.ToLower(string(runes[begin:i])))
		}
		begin = i
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end(i)
			begin = i + 1
		case i > 0 && unicode.IsUpper(r) &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end(i)
		}
	}
	end(len(runes))
	return all
}

// excepted returns the exception that allows a finding, or -1.
func (p possible) excepted(all []exception) int {
	for i, e := range all {
		if p.name != "" && path.Dir(p.file) == e.folder && (e.name == p.name || e.word == p.word) {
			return i
		}
	}
	return -1
}
