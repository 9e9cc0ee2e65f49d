package main

import (
	"go/ast"
	"go/token"
	"strings"
)

// A comment is its lines, without the marks of comments, and the number of the first one in the file.
// Comments in lines that follow each other are one.
type comment struct {
	line  int
	lines []string
}

// commentsOfGo returns the comments of a Go file.
func commentsOfGo(fset *token.FileSet, f *ast.File) (all []comment) {
	for _, group := range f.Comments {
		c := comment{line: fset.Position(group.Pos()).Line}
		for _, one := range group.List {
			if strings.HasPrefix(one.Text, "//") {
				c.lines = append(c.lines, one.Text[2:])
			} else {
				c.lines = append(c.lines, block(one.Text)...)
			}
		}
		all = append(all, c)
	}
	return all
}

// block returns the lines of a comment between /* and */.
func block(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text[2:], "*/"), "\n")
	for i := range lines[1:] {
		lines[i+1] = strings.TrimPrefix(strings.TrimLeft(lines[i+1], " \t"), "*")
	}
	return lines
}

// commentsOfC returns the comments of a C file.
func commentsOfC(text string) (all []comment) {
	line, begin := 1, 0 // of the text at i, and where its line begins
	column := -1        // of the last // comment
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			line, begin = line+1, i+1
		case c == '"' || c == '\'':
			for i++; i < len(text) && text[i] != c && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
				if i < len(text) && text[i] == '\n' { // a literal that goes on in the next line
					line, begin = line+1, i+1
				}
			}
			if i < len(text) && text[i] == '\n' { // no literal: an apostrophe in #error
				i--
			}
		case strings.HasPrefix(text[i:], "//"):
			end := len(text)
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				end = i + n
			}
			one, last := text[i+2:end], len(all)-1
			goesOn := i-begin == column && strings.TrimSpace(text[begin:i]) == ""
			if goesOn && all[last].line+len(all[last].lines) == line {
				all[last].lines = append(all[last].lines, one)
			} else {
				all = append(all, comment{line, []string{one}})
			}
			column = i - begin
			i = end - 1
		case strings.HasPrefix(text[i:], "/*"):
			end := len(text)
			if n := strings.Index(text[i+2:], "*/"); n >= 0 {
				end = i + 2 + n + 2
			}
			c := comment{line, block(text[i:end])}
			all = append(all, c)
			if n := strings.LastIndexByte(text[i:end], '\n'); n >= 0 {
				begin = i + n + 1
			}
			line += len(c.lines) - 1
			i = end - 1
		}
	}
	return all
}
