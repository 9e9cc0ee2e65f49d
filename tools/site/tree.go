package main

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// built are folders of the root that the Makefile fills.
var built = []string{"bin", "dist", "man", "site"}

// isApart reports whether the Markdown in a folder is part of the site only if a page links to it.
func isApart(name string) bool {
	base := path.Base(name)
	isHidden := base != "." && strings.HasPrefix(base, ".")
	return isHidden || base == "testdata" || slices.Contains(built, name)
}

// pages returns all Markdown of a tree, sorted.
func pages(tree fs.FS) (list []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && isApart(name):
			return fs.SkipDir
		case !d.IsDir() && isPage(name):
			list = append(list, name)
		}
		return nil
	})
	return list, err
}

func isPage(name string) bool { return path.Ext(name) == ".md" }

// isPicture reports whether a file is shown by browsers as a picture, and so is copied as it is.
func isPicture(name string) bool {
	return slices.Contains([]string{".svg", ".png", ".jpg", ".gif", ".webp"}, path.Ext(name))
}

// address returns the file of the site for a file or folder of the tree.
func address(tree fs.FS, name string) string {
	switch {
	case path.Base(name) == "README.md":
		return path.Join(path.Dir(name), "index.html")
	case isPage(name):
		return strings.TrimSuffix(name, ".md") + ".html"
	case isPicture(name):
		return name
	case isFolder(tree, name):
		return path.Join(name, "index.html")
	}
	return name + ".html"
}

func isFolder(tree fs.FS, name string) bool {
	info, err := fs.Stat(tree, name)
	return err == nil && info.IsDir()
}

// from returns a link to a file of the site from another one.
func from(here, there string) string {
	up := strings.Split(path.Dir(here), "/")
	down := strings.Split(path.Dir(there), "/")
	if up[0] == "." {
		up = nil
	}
	if down[0] == "." {
		down = nil
	}
	for len(up) > 0 && len(down) > 0 && up[0] == down[0] {
		up, down = up[1:], down[1:]
	}
	return strings.Repeat("../", len(up)) + path.Join(append(down, path.Base(there))...)
}
