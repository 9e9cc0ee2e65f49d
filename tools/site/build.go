package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/nicless/nicless/tools/decodepage"
)

// A site is made of a tree. Its files go from path to bytes.
type site struct {
	tree  fs.FS
	files map[string][]byte

	pages map[string]*page // by their names in the tree, sources and folders included
	queue []string         // names to which a page links, whose pages are not made yet
}

// build makes a site. An error names the page, and the link or text in it that is wrong.
func build(tree fs.FS, decoder decodepage.Decoder) (*site, error) {
	s := &site{tree: tree, files: map[string][]byte{marker: nil}, pages: map[string]*page{}}
	var err error
	s.queue, err = pages(tree)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(s.queue, "README.md") {
		return nil, fmt.Errorf("the tree has no README.md, which is the first page")
	}
	folders := map[string][]string{}
	for len(s.queue) > 0 {
		name := s.queue[0]
		s.queue = s.queue[1:]
		if err := s.add(name, folders); err != nil {
			return nil, err
		}
	}
	for name, files := range folders { // last, because they show the titles of pages
		s.pages[name] = folder(tree, name, files, func(page string) string { return s.pages[page].title })
	}
	if err := s.layOut(); err != nil {
		return nil, err
	}
	s.files["decoder.html"], err = decoder.Page("index.html")
	return s, err
}

// add makes the page of a name in the tree, if it has none, and enqueues those to which the page links. A
// folder gets its page later.
func (s *site) add(name string, folders map[string][]string) (err error) {
	if s.pages[name] != nil || folders[name] != nil {
		return nil
	}
	switch {
	case isFolder(s.tree, name):
		if s.has(path.Join(name, "README.md")) {
			s.queue = append(s.queue, path.Join(name, "README.md"))
			return nil
		}
		folders[name], err = entries(s.tree, name)
		s.queue = append(s.queue, folders[name]...)
	case isPicture(name):
		s.files[name], err = fs.ReadFile(s.tree, name)
	case isPage(name):
		err = s.addPage(name)
	default:
		s.pages[name], err = source(s.tree, name)
	}
	return err
}

func (s *site) addPage(name string) error {
	text, err := fs.ReadFile(s.tree, name)
	if err != nil {
		return err
	}
	p, err := render(name, text, s.resolve)
	if err != nil {
		return err
	}
	s.pages[name] = p
	s.queue = append(s.queue, p.links...)
	return nil
}

// resolve returns the file of the site for a name in the tree.
func (s *site) resolve(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", fmt.Errorf("%s is outside the tree", name)
	}
	if !s.has(name) {
		return "", fmt.Errorf("the tree has no %s", name)
	}
	return address(s.tree, name), nil
}

func (s *site) has(name string) bool {
	_, err := fs.Stat(s.tree, name)
	return err == nil
}
