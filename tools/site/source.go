package main

import (
	"fmt"
	"html"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// source returns the page of a source file: its text as it is.
func source(tree fs.FS, name string) (*page, error) {
	b, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%s is no text, and no picture that browsers show", name)
	}
	return &page{name: name, title: name,
		html: fmt.Sprintf("<h1>%s</h1>\n<pre class=\"source\"><code>%s</code></pre>\n", html.EscapeString(name),
			html.EscapeString(string(b)))}, nil
}

// entries returns the files in a folder, without those in folders below.
func entries(tree fs.FS, name string) (files []string, err error) {
	list, err := fs.ReadDir(tree, name)
	for _, e := range list {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, path.Join(name, e.Name()))
		}
	}
	return files, err
}

// folder returns the page of a folder without a README.md: its files, pages by their titles.
func folder(tree fs.FS, name string, files []string, title func(page string) string) *page {
	var out strings.Builder
	fmt.Fprintf(&out, "<h1>%s/</h1>\n<ul class=\"folder\">\n", html.EscapeString(name))
	for _, file := range files {
		label := path.Base(file)
		if isPage(file) {
			label = title(file)
		}
		to := html.EscapeString(from(address(tree, name), address(tree, file)))
		fmt.Fprintf(&out, "<li><a href=\"%s\">%s</a></li>\n", to, html.EscapeString(label))
	}
	out.WriteString("</ul>\n")
	return &page{name: name, title: name + "/", html: out.String()}
}
