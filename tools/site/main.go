package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nicless/nicless/tools/decodepage"
)

// marker is a file in each site, so that nothing else is taken for an old one and removed.
const marker = ".nicless-site"

func main() {
	root := flag.String("root", ".", "the tree")
	out := flag.String("o", "site", "the folder to make; an old site there is removed")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(root, out string) error {
	decoder, err := decodepage.Compile(context.Background())
	if err != nil {
		return err
	}
	s, err := build(os.DirFS(root), decoder)
	if err != nil {
		return err
	}
	if err := s.write(out); err != nil {
		return err
	}
	bytes := 0
	for _, b := range s.files {
		bytes += len(b)
	}
	fmt.Printf("%s has %d files with %d bytes; begin at %s\n", out, len(s.files), bytes,
		filepath.Join(out, "index.html"))
	return nil
}

// write writes all files of a site into a folder, in which nothing but an older site may be.
func (s *site) write(out string) error {
	old, err := os.ReadDir(out)
	switch {
	case err != nil && !os.IsNotExist(err):
		return err
	case len(old) > 0:
		if _, err := os.Stat(filepath.Join(out, marker)); err != nil {
			return fmt.Errorf("%s has %d files and is no site: it has no file %s", out, len(old), marker)
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	for name, b := range s.files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
