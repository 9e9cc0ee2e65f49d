package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"unicode/utf8"
)

const (
	maxWidth    = 110
	tabWidth    = 4
	longLiteral = 25 // characters of a string, which is then better in one piece than in lines that fit
)

// columns returns the width of a line.
func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}

func tooWide(file string, line int, text string) possible {
	return possible{finding: finding{file, line,
		fmt.Sprintf("%d columns: at most %d, break the line or shorten it", columns(text), maxWidth)}}
}

// width finds lines of a Go file that are too wide. These may be wide: a line that a long string makes too
// wide, a row of a table, which begins with { in a composite literal, and a line with a URL.
func width(fset *token.FileSet, f *ast.File, file, text string) (found []possible) {
	var wide []int
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if columns(line) > maxWidth && !strings.Contains(line, "://") {
			wide = append(wide, i+1)
		}
	}
	if wide == nil {
		return nil
	}
	may := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			first, last := fset.Position(n.Pos()).Line, fset.Position(n.End()).Line
			if n.Kind != token.STRING {
				break
			}
			for i := first; i < last; i++ { // a raw string has its own lines
				may[i] = true
			}
			length := utf8.RuneCountInString(n.Value)
			if first == last && length >= longLiteral && columns(lines[first-1])-length <= maxWidth {
				may[first] = true
			}
		case *ast.CompositeLit:
			for _, row := range n.Elts {
				at := fset.Position(row.Pos())
				if strings.TrimLeft(lines[at.Line-1][:at.Column-1], " \t") == "" &&
					lines[at.Line-1][at.Column-1] == '{' {
					may[at.Line] = true
				}
			}
		}
		return true
	})
	for _, line := range wide {
		if !may[line] {
			found = append(found, tooWide(file, line, lines[line-1]))
		}
	}
	return found
}

// commentWidth finds lines with comments that are too wide, in files whose code may be wide: tests, and C.
func commentWidth(file, text string, comments []comment) (found []possible) {
	lines := strings.Split(text, "\n")
	seen := 0
	for _, c := range comments {
		for i := range c.lines {
			line := c.line + i
			if line > seen && columns(lines[line-1]) > maxWidth && !strings.Contains(lines[line-1], "://") {
				found = append(found, tooWide(file, line, lines[line-1]))
			}
			seen = max(seen, line)
		}
	}
	return found
}
