package main

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A page is a page of Markdown of which HTML was made.
type page struct {
	name     string // in the tree
	title    string // its first heading
	html     string
	sections []section
	links    []string // names in the tree to which it links, in order
}

// A section is a heading and the text up to the next one. The first section may have no heading.
type section struct {
	level   int
	anchor  string
	heading string
	text    strings.Builder
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// render makes HTML of a page. Links to the tree become links to the site, where resolve returns the file of
// the site for a name in the tree, or an error if the tree has no such name.
func render(name string, source []byte, resolve func(string) (string, error)) (*page, error) {
	p := &page{name: name, sections: make([]section, 1)}
	doc := markdown.Parser().Parse(text.NewReader(source))
	v := visitor{page: p, source: source, resolve: resolve, anchors: anchors{}}
	if err := ast.Walk(doc, v.visit); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if p.title == "" {
		return nil, fmt.Errorf("%s has no heading, so the page has no title", name)
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.html = out.String()
	return p, nil
}

// A visitor collects what a page has, and changes links and headings.
type visitor struct {
	page    *page
	source  []byte
	resolve func(string) (string, error)
	anchors anchors
}

func (v *visitor) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var err error
	switch n := n.(type) {
	case *ast.Heading:
		v.heading(n)
		return ast.WalkSkipChildren, nil
	case *ast.Link:
		n.Destination, err = v.link(n.Destination)
	case *ast.Image:
		n.Destination, err = v.link(n.Destination)
	case *ast.HTMLBlock:
		err = onlyComment(n.Lines(), v.source)
	case *ast.RawHTML:
		err = onlyComment(n.Segments, v.source)
	case *ast.Text:
		v.text(n.Value(v.source))
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			v.text(line.Value(v.source))
		}
	}
	return ast.WalkContinue, err
}

// text adds words to the section that is read.
func (v *visitor) text(b []byte) {
	at := &v.page.sections[len(v.page.sections)-1].text
	at.Write(b)
	at.WriteByte('\n')
}

// heading begins a section, and gives the heading its anchor and a link to itself.
func (v *visitor) heading(n *ast.Heading) {
	heading := textOf(n, v.source)
	anchor := v.anchors.of(heading)
	v.page.sections = append(v.page.sections, section{level: n.Level, anchor: anchor, heading: heading})
	if v.page.title == "" {
		v.page.title = heading
	}
	n.SetAttributeString("id", []byte(anchor))
	self := ast.NewLink()
	self.Destination = []byte("#" + anchor)
	self.SetAttributeString("class", []byte("anchor"))
	self.Title = []byte("Link to " + heading)
	self.AppendChild(self, ast.NewString([]byte("#")))
	n.AppendChild(n, self)
}

// link returns where a link leads in the site. Addresses outside the tree stay as they are.
func (v *visitor) link(to []byte) ([]byte, error) {
	u, err := url.Parse(string(to))
	if err != nil {
		return nil, fmt.Errorf("link %q: %w", to, err)
	}
	if u.Scheme != "" || u.Path == "" {
		return to, nil
	}
	name := path.Join(path.Dir(v.page.name), u.Path)
	file, err := v.resolve(name)
	if err != nil {
		return nil, fmt.Errorf("link %q: %w", to, err)
	}
	here, err := v.resolve(v.page.name)
	if err != nil {
		return nil, err
	}
	v.page.links = append(v.page.links, name)
	u.Path = from(here, file)
	return []byte(u.String()), nil
}

// onlyComment returns an error if HTML in a page is more than a comment, because the site leaves HTML out.
func onlyComment(lines *text.Segments, source []byte) error {
	html := strings.TrimSpace(string(lines.Value(source)))
	if strings.HasPrefix(html, "<!--") && strings.HasSuffix(html, "-->") {
		return nil
	}
	return fmt.Errorf("%q is HTML, which the site leaves out: write it as Markdown, or as code", html)
}
