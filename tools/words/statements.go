package main

import (
	"fmt"
	"go/ast"
	"go/token"
)

// statements finds statements and conditions that are read twice:
//
//   - a statement before the condition of an if or the value of a switch, unless it sets variables, and the
//     condition uses one of them;
//   - a statement before a switch without a value;
//   - a range that sets variables from outside;
//   - a condition of mixedParts parts or more with || and && beside each other, without parentheses.
func statements(fset *token.FileSet, f *ast.File, file string) (found []possible) {
	report := func(at token.Pos, text string) {
		found = append(found, possible{finding: finding{file, fset.Position(at).Line, text}})
	}
	inside := map[ast.Expr]bool{} // parts of conditions that were checked with the whole
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if n.Init != nil && !sets(n.Init, n.Cond) {
				report(n.Init.Pos(), "the condition does not use what this statement sets: a line of its own")
			}
		case *ast.SwitchStmt:
			switch {
			case n.Init == nil:
			case n.Tag == nil:
				report(n.Init.Pos(), "a statement before a switch without a value: a line of its own")
			case !sets(n.Init, n.Tag):
				report(n.Init.Pos(), "the switch is not by what this statement sets: a line of its own")
			}
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				report(n.Pos(), "range sets variables from outside: give it variables of its own")
			}
		case *ast.BinaryExpr:
			if parts := conditions(n); !inside[n] && parts >= mixedParts && mixed(n, inside) {
				report(n.Pos(), fmt.Sprintf(
					"%d parts with || and &&: use parentheses, or a name for some of them", parts))
			}
		}
		return true
	})
	return found
}

const mixedParts = 4

// sets reports whether a statement sets variables of a function, one of which an expression uses.
func sets(s ast.Stmt, use ast.Expr) (used bool) {
	a, ok := s.(*ast.AssignStmt)
	if !ok || a.Tok != token.DEFINE && a.Tok != token.ASSIGN {
		return false
	}
	names := map[string]bool{}
	for _, left := range a.Lhs {
		id, ok := left.(*ast.Ident)
		if !ok {
			return false
		}
		names[id.Name] = id.Name != "_"
	}
	ast.Inspect(use, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && names[id.Name] {
			used = true
		}
		return !used
	})
	return used
}

// logical returns an expression as one with || or &&; nil if it is another.
func logical(e ast.Expr) *ast.BinaryExpr {
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.LOR || b.Op == token.LAND) {
		return b
	}
	return nil
}

// conditions returns of how many parts a condition with || and && consists.
func conditions(e ast.Expr) int {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return conditions(x.X)
	case *ast.UnaryExpr:
		return conditions(x.X)
	}
	if b := logical(e); b != nil {
		return conditions(b.X) + conditions(b.Y)
	}
	return 1
}

// mixed reports whether && is beside || in a condition, without parentheses. It adds the parts to inside.
func mixed(e ast.Expr, inside map[ast.Expr]bool) (is bool) {
	b := logical(e)
	if b == nil {
		return false
	}
	for _, part := range []ast.Expr{b.X, b.Y} {
		inside[part] = true
		other := logical(part)
		if mixed(part, inside) || other != nil && other.Op != b.Op {
			is = true
		}
	}
	return is
}
